package pebbleshard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
)

// rowSum is a checksum of the rows that Open reads, in any order. Every commit writes it, with the commit's number.
// So Open also detects missing rows of earlier commits when later commits exist.
type rowSum struct {
	// commit is the number of the last commit.
	commit uint64
	sum    uint64
	// rows has the checksum of each row by a 64-bit hash of its key. The hash's seed is random and unknown to writers
	// of rows, so that they cannot construct collisions.
	rows map[uint64]uint64
	seed maphash.Seed
}

func newRowSum() *rowSum { return &rowSum{rows: map[uint64]uint64{}, seed: maphash.MakeSeed()} }

// isSummed reports whether rows under a letter are in the checksum: those that Open reads.
func isSummed(prefix byte) bool {
	switch prefix {
	case hostKey, usageKey, claimKey, pinKey, gateKey, namespaceKey, adminKey, customNameKey, laneKey:
		return true
	}
	return false
}

func (r *rowSum) put(key, row []byte) {
	at, sum := maphash.Bytes(r.seed, key), rowChecksum(key, row)
	r.sum += sum - r.rows[at]
	r.rows[at] = sum
}

func (r *rowSum) drop(key []byte) {
	at := maphash.Bytes(r.seed, key)
	r.sum -= r.rows[at]
	delete(r.rows, at)
}

// rowChecksum is the checksum of a key and a row. It is mixed, so that changes do not cancel in sums.
func rowChecksum(key, row []byte) uint64 {
	x := xxhash.Sum64(key)*0x9e3779b97f4a7c15 + xxhash.Sum64(row)
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

// seal makes a batch the next commit: it counts the batch's rows in sizes, and adds the checksum of the rows after
// it.
func (r *rowSum) seal(b *pebble.Batch, z *sizes) error {
	for ops := b.Reader(); ; {
		kind, key, row, more, err := ops.Next()
		switch {
		case err != nil:
			return err
		case !more:
			r.commit++
			return b.Set(sumKey, r.text(), nil)
		case !isSummed(key[0]):
			if kind == pebble.InternalKeyKindSet {
				z.add(key, len(row))
			}
		case kind == pebble.InternalKeyKindSet:
			r.put(key, row)
		case kind == pebble.InternalKeyKindDelete:
			r.drop(key)
		default:
			return fmt.Errorf("a batch has an operation of kind %s on key %q, which the checksum does not know", kind, key)
		}
	}
}

func (r *rowSum) text() []byte {
	b := binary.BigEndian.AppendUint64(nil, r.commit)
	b = binary.BigEndian.AppendUint64(b, uint64(len(r.rows)))
	return binary.BigEndian.AppendUint64(b, r.sum)
}

// checkRows compares the rows that were read with the checksum in the last commit, and that commit with the
// high-water mark. Its error is nil if nothing is missing.
func (s *Store) checkRows(h highWater) error {
	b, closer, err := s.db.Get(sumKey)
	if errors.Is(err, pebble.ErrNotFound) {
		if h.commit == 0 && len(s.sum.rows) == 0 {
			return nil // a shard that is being created
		}
		return s.dir.lost(pebbleDir, fmt.Errorf("its files have no commit, %d were acknowledged", h.commit))
	}
	if err != nil {
		return err
	}
	text := bytes.Clone(b)
	if err := closer.Close(); err != nil {
		return err
	}
	if len(text) != 24 {
		return fmt.Errorf("row %q has %d bytes, not 24", sumKey, len(text))
	}
	s.sum.commit = binary.BigEndian.Uint64(text)
	if s.sum.commit < h.commit {
		file, err := s.dir.logFile(h.log)
		return s.dir.lost(file, errors.Join(fmt.Errorf("commit %d is the last in %s, %d were acknowledged", s.sum.commit, pebbleDir, h.commit), err))
	}
	if string(text) != string(s.sum.text()) {
		return s.dir.lost(pebbleDir, fmt.Errorf("a file is missing or damaged: commit %d left %d rows, there are %d or others",
			s.sum.commit, binary.BigEndian.Uint64(text[8:]), len(s.sum.rows)))
	}
	return nil
}

// logFile gives the name of a log file of Pebble, relative to the directory, and an error if it does not exist.
func (d *directory) logFile(number uint64) (string, error) {
	name := d.fs.PathJoin(pebbleDir, fmt.Sprintf("%06d.log", number))
	if _, err := d.fs.Stat(d.in(name)); err != nil {
		return name, fmt.Errorf("the file is missing: %w", err)
	}
	return name, nil
}
