package agent

import (
	"maps"
	"testing"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Taken returns what claims take in addition to instances, by instance, and whether the cell has
// sent its set of claims.
func TestWhatClaimsTake(t *testing.T) {
	c, _ := claimsOf(smallHost(4)) // of instance 0
	if got, known := c.Taken(rootUUID, "VCPU"); len(got) != 0 || known {
		t.Errorf("before a claim set: %v, %v", got, known)
	}
	c.set("r", &agentv1.ClaimSet{ClaimIds: []string{"a", "b", "c"}})
	for id, n := range map[string]int{"a": 0, "b": 10, "c": 11} {
		o := offerTo(id, n, 2)
		if n == 0 {
			o.Usages = vcpus(4)
		}
		c.offered("r", o)
	}
	if _, err := c.AbortClaim("c"); err != nil {
		t.Fatal(err)
	}
	got, known := c.Taken(rootUUID, "VCPU")
	if want := map[string]int64{instanceUUID(10): 2}; !known || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, known, want)
	}
	if got, _ := c.Taken(rootUUID, "DISK_GB"); len(got) != 0 {
		t.Errorf("of another class: %v", got)
	}
	c.ended("b", "RELEASED")
	if got, _ := c.Taken(rootUUID, "VCPU"); len(got) != 0 {
		t.Errorf("after it ended: %v", got)
	}
}
