package bench

import (
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Shape says which requests are sent.
type Shape string

const (
	// Same: always one instance of one flavor.
	Same Shape = "same"
	// Mix: typical flavors of clouds, some with zones, traits, alternates, several instances or groups,
	// and some that no host can hold.
	Mix Shape = "mix"
)

// flavor is a size and its share of the requests, in hundredths.
type flavor struct {
	vcpus, memoryMB, diskGB int32
	share                   int
}

var flavors = []flavor{
	{1, 2048, 20, 18}, {2, 4096, 40, 45}, {4, 8192, 80, 8}, {8, 16384, 160, 24}, {16, 65536, 320, 3}, {32, 131072, 640, 2},
}

// traits that some requests need; hosts of the simulated fleet have them.
var traits = []string{"STORAGE_DISK_SSD", "HW_CPU_X86_AVX512F", "COMPUTE_VOLUME_MULTI_ATTACH"}

// leaseFor is the lease of claims, in seconds. It is longer than any run, so that expiring leases do
// not affect the rate.
const leaseFor = 3600

// maker makes one caller's requests. The same seed makes the same requests, except for their uuids.
type maker struct {
	shape Shape
	dice  *rand.Rand
}

// next returns a request, and whether no host can hold it.
func (m *maker) next() (req *cellgatev1.SelectDestinationsRequest, impossible bool) {
	spec := &cellgatev1.RequestSpec{ProjectId: "bench"}
	req = &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{uuid.NewString()},
		Spec:          &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: spec},
		ClaimTtl:      &durationpb.Duration{Seconds: leaseFor},
	}
	if m.shape == Same {
		spec.Flavor = flavors[1].proto()
		return req, false
	}
	spec.Flavor = m.flavor().proto()
	req.ReturnAlternates = m.dice.IntN(2) == 0
	switch roll := m.dice.IntN(100); {
	case roll < 12:
		spec.AvailabilityZone = fmt.Sprintf("az%d", 1+m.dice.IntN(3))
	case roll < 24:
		spec.RequiredTraits = []string{traits[m.dice.IntN(len(traits))]}
	case roll < 28:
		req.InstanceUuids = append(req.InstanceUuids, uuid.NewString(), uuid.NewString())
	case roll < 30:
		req.InstanceUuids = append(req.InstanceUuids, uuid.NewString())
		spec.InstanceGroup = &cellgatev1.InstanceGroup{Uuid: uuid.NewString(), Policy: "anti-affinity"}
	case roll < 32:
		spec.RequiredTraits, impossible = []string{"CUSTOM_QUANTUM"}, true
	}
	return req, impossible
}

func (m *maker) flavor() flavor {
	roll := m.dice.IntN(100)
	for _, f := range flavors {
		if roll -= f.share; roll < 0 {
			return f
		}
	}
	return flavors[len(flavors)-1]
}

func (f flavor) proto() *cellgatev1.Flavor {
	return &cellgatev1.Flavor{Vcpus: f.vcpus, MemoryMb: f.memoryMB, RootGb: f.diskGB}
}
