package importer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/legacy/novadb"
)

// comparedOf gives the uuids of the lines of one kind.
func comparedOf(d *Difference, what What) (uuids []string) {
	for _, l := range d.Lines {
		if l.What == what {
			uuids = append(uuids, l.UUID)
		}
	}
	slices.Sort(uuids)
	return uuids
}

// On a host whose agent does not know its instances a comparison says what an import does
// with them, in NATIVE too; where the agent knows them, nothing is done.
func TestCompareWhereAgentsDoNotKnowTheirInstances(t *testing.T) {
	n, cell := newNova(3), newCell()
	cell.agents(1)
	cell.hosts[hostID(1)].state.InstancesUnknown = true
	cell.agents(2)
	for i, host := range map[int64]int64{1: 1, 2: 1, 3: 2} {
		n.on(i, host)
		cell.claims[instanceID(i)] = &fakeClaim{host: hostID(host), adopted: true}
	}
	n.on(4, 1)
	cell.claims[instanceID(4)] = &fakeClaim{host: hostID(1), pending: true}
	n.on(5, 1)
	cell.claims[instanceID(6)] = &fakeClaim{host: hostID(1), seen: true}
	n.now = n.now.Add(time.Hour)
	for _, gone := range []int64{2, 3} {
		n.put(gone, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now })
	}
	d, err := importerOf(t, n).Compare(t.Context(), n.snapshot(), cell)
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[What][]string{
		InstanceAdopted: {instanceID(5)}, InstanceConfirmed: {instanceID(4)}, InstanceReleased: {instanceID(2), instanceID(6)},
		InstanceWithoutClaim: nil, ClaimWithoutInstance: nil,
	} {
		if got := comparedOf(d, what); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	if d.Counts[InstanceEqual] != 1 {
		t.Errorf("%d are equal", d.Counts[InstanceEqual])
	}

	m := importerOf(t, n)
	var did Report
	for range 3 {
		n.now = n.now.Add(time.Hour)
		r, err := m.Step(t.Context(), n.snapshot(), cell)
		if err != nil {
			t.Fatal(err)
		}
		did.Adopted, did.Confirmed, did.Released = did.Adopted+r.Adopted, did.Confirmed+r.Confirmed, did.Released+r.Released
	}
	if did.Adopted != 1 || did.Confirmed != 1 || did.Released != 2 || cell.claims[instanceID(3)] == nil {
		t.Errorf("the import did %+v", did)
	}
}

// A comparison names each confirmed claim whose CPUs or memory differ from its instance's row, whoever made it. It does
// not compare disk, or classes that the claim does not have.
func TestCompare_ClaimOfOtherAmounts_IsReported(t *testing.T) {
	n, cell := newNova(2), newCell()
	cell.agents(2)
	cell.hosts[hostID(2)].state.InstancesUnknown = true
	for i, c := range map[int64]*fakeClaim{
		1: {host: hostID(1), used: map[string]int32{vcpu: 2, memoryMB: 2048, diskGB: 44}},
		2: {host: hostID(1), used: map[string]int32{vcpu: 1, memoryMB: 2048, diskGB: 20}},
		3: {host: hostID(1), used: map[string]int32{vcpu: 2, memoryMB: 4096}, adopted: true},
		4: {host: hostID(2), used: map[string]int32{vcpu: 8, memoryMB: 512}},
		5: {host: hostID(1), used: map[string]int32{"PCPU": 4, memoryMB: 2048}},
		6: {host: hostID(1), used: map[string]int32{vcpu: 1}, pending: true},
	} {
		n.on(i, 1)
		if c.host == hostID(2) {
			n.on(i, 2)
		}
		cell.claims[instanceID(i)] = c
	}
	d, err := importerOf(t, n).Compare(t.Context(), n.snapshot(), cell)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := comparedOf(d, InstanceDiffers), []string{instanceID(2), instanceID(3), instanceID(4)}; !slices.Equal(got, want) || d.Counts[InstanceEqual] != 2 {
		t.Errorf("of other amounts are %v, want %v; %d are equal", got, want, d.Counts[InstanceEqual])
	}
	for _, l := range d.Lines {
		want := map[string]string{
			instanceID(2): "holds VCPU 1, its row has 2; a request made it", instanceID(3): "holds MEMORY_MB 4096, its row has 2048; it is adopted",
			instanceID(4): "holds VCPU 8, its row has 2; MEMORY_MB 512, its row has 2048; a request",
		}[l.UUID]
		if l.What == InstanceDiffers && !strings.Contains(l.Detail, want) {
			t.Errorf("of %s: %q, want %q", l.UUID, l.Detail, want)
		}
	}
}

// A comparison names a claim that was confirmed long ago, whose instance is in no row, and that no import releases.
func TestCompare_ClaimWithoutAnInstance_IsReported(t *testing.T) {
	n, cell := newNova(2), newCell()
	cell.agents(1)
	long := n.now.Add(-time.Hour)
	claims := map[int64]*fakeClaim{
		1: {host: hostID(1)}, 2: {host: hostID(2)}, 3: {host: hostID(1), seen: true}, // lost
		4: {host: hostID(1), pending: true}, 5: {host: hostID(1), adopted: true}, // what the agent has
		6: {host: hostID(1), updated: n.now.Add(-instanceWithin / 2)}, // its instance may come
		7: {host: hostID(1)}, 8: {host: hostID(2)},                    // of rows
		9: {host: hostID(2), seen: true}, // released
	}
	for i, c := range claims {
		if c.updated.IsZero() {
			c.updated = long
		}
		cell.claims[instanceID(i)] = c
	}
	n.on(7, 2)
	n.on(8, 2)
	n.put(8, func(r *novadb.Instance) { r.Incomplete = true })
	d, err := importerOf(t, n).Compare(t.Context(), n.snapshot(), cell)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := comparedOf(d, ClaimWithoutInstance), []string{instanceID(1), instanceID(2), instanceID(3)}; !slices.Equal(got, want) || d.Counts[ClaimWithoutInstance] != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := comparedOf(d, InstanceReleased), []string{instanceID(9)}; !slices.Equal(got, want) {
		t.Errorf("released are %v, want %v", got, want)
	}
}
