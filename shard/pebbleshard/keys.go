package pebbleshard

import (
	"encoding/binary"
	"time"

	"cellgate/shard"
)

// Keys are a letter and the text after it. Numbers are big-endian, so that they sort. Names have no byte below 0x21,
// so that 0 can end a name.
//
//	h <host uuid>                        Host
//	u <host uuid>                        Usage
//	c <claim_id>                         Claim, live
//	t <claim_id>                         Claim, a tombstone
//	e <end, ns> <claim_id>               tombstones by end
//	x <consumer uuid> 0 <claim_id>       tombstones by consumer
//	p <group uuid>                       Pin
//	g                                    Gate
//	f <host uuid> 0 <name>               Namespace
//	a <host uuid>                        AdminState
//	r <kind> 0 <name>                    CustomName
//	j <incarnation> <seq>                       Entry
//	l <incarnation>                             Lane
//	d <decision id>                      Decision
//	b <decision id>                      a decision's body
//	n <hash, 8> <decision id>            decisions by term
//	m incarnation                               the last incarnation given out
//	m time                               store time has not passed this, ns
//	m sum                                the last commit, and the checksum of the rows after it
const (
	hostKey          = 'h'
	usageKey         = 'u'
	claimKey         = 'c'
	tombstoneKey     = 't'
	endKey           = 'e'
	consumerEndedKey = 'x'
	pinKey           = 'p'
	gateKey          = 'g'
	namespaceKey     = 'f'
	adminKey         = 'a'
	customNameKey    = 'r'
	entryKey         = 'j'
	laneKey          = 'l'
	decisionKey      = 'd'
	bodyKey          = 'b'
	namedKey         = 'n'
)

var (
	incarnationKey = []byte("mincarnation")
	timeKey        = []byte("mtime")
	sumKey         = []byte("msum")
)

func nameKey(prefix byte, name string) []byte {
	return append(append(make([]byte, 0, 1+len(name)), prefix), name...)
}

func numberKey(prefix byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, n)
}

func journalKey(incarnation, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(numberKey(entryKey, incarnation), seq)
}

func tombstoneEndKey(end time.Time, id string) []byte {
	return append(numberKey(endKey, uint64(end.UnixNano())), id...)
}

func endedOfKey(consumer, id string) []byte {
	return append(append(nameKey(consumerEndedKey, consumer), 0), id...)
}

func namespaceKeyOf(host, name string) []byte {
	return append(append(nameKey(namespaceKey, host), 0), name...)
}

func customNameKeyOf(n shard.NameRef) []byte {
	return append(append(nameKey(customNameKey, string(n.Kind)), 0), n.Name...)
}

// after is the end of the range of keys with a prefix, whose last byte must not be 0xff.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	end[len(end)-1]++
	return end
}
