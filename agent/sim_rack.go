package agent

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/google/uuid"
)

// hostsPerRack is how many hosts of a cell stand in one rack.
const hostsPerRack = 25

// place is the position of a simulated host. The host's properties follow from it, so that the bundled
// requests can name hosts.
type place struct {
	cell string
	rack int // from 1
	slot int // from 1 to hostsPerRack
}

func placeOf(cell string, index int) place {
	return place{cell: cell, rack: index/hostsPerRack + 1, slot: index%hostsPerRack + 1}
}

// name is the service host.
func (p place) name() string { return fmt.Sprintf("%s-r%02d-h%03d", p.cell, p.rack, p.slot) }

// dice makes the random choices of one host. They depend on the seed and the place, not on the number
// of hosts.
func (p place) dice(seed uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.name())) // fnv's Write never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// seededUUID draws a version 4 uuid.
func seededUUID(dice *rand.Rand) string {
	var u uuid.UUID
	for i := range u {
		u[i] = byte(dice.Uint32())
	}
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}

// disabled: the operator took the host out of service.
func (p place) disabled() bool { return p.slot == 1 && p.rack%8 == 4 }

// full: nearly all memory is reserved.
func (p place) full() bool { return p.slot == 2 && p.rack == 1 }

// unzoned: the rack is in no availability zone.
func (p place) unzoned() bool { return p.rack%10 == 0 }

func (p place) ssd() bool  { return p.slot >= 13 }
func (p place) gold() bool { return p.slot >= 16 && p.slot <= 20 && p.rack%2 == 0 }
func (p place) gpu() bool  { return p.slot == 24 }
func (p place) fpga() bool { return p.slot == 25 }
func (p place) sgx() bool  { return p.slot == 21 && p.rack%2 == 1 }
