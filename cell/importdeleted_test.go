package cell

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// deleted reports instances whose rows are deleted, from tables that were complete at at. It
// returns the instances that still have a claim, and how many claims were released.
func (r *testCell) deleted(at time.Time, consumers ...int) (claimed []string, released int) {
	r.t.Helper()
	in := &cellv1.ImportHostsRequest{InstancesAt: timestamppb.New(at)}
	for _, n := range consumers {
		id, err := schedule.ParseID(consumerUUID(n))
		if err != nil {
			r.t.Fatal(err)
		}
		in.Deleted = append(in.Deleted, id[:]...)
	}
	out, err := r.cells.ImportHosts(context.Background(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	for rest := out.GetClaimed(); len(rest) > 0; rest = rest[len(schedule.ID{}):] {
		claimed = append(claimed, schedule.ID(rest).String())
	}
	return claimed, int(out.GetDeletedReleased())
}

// A deleted row releases a confirmed claim if the host's agent knows its instances and does not
// report this one. It also releases claims on imported hosts, and where the agent does not know its instances.
func TestADeletedRowReleasesAClaimThatItsHostDoesNotReport(t *testing.T) {
	r := start(t, newStore(t))
	later := time.Now().Add(time.Hour)
	keeps := func(why string, at time.Time, consumer int) {
		t.Helper()
		if claimed, released := r.deleted(at, consumer); released != 0 || len(claimed) != 1 || claimed[0] != consumerUUID(consumer) {
			t.Errorf("%s: %d released, %v have claims", why, released, claimed)
		}
	}
	a := r.register(plainState(1, 8))
	r.must(newClaim("a", 1, 1, 1))
	keeps("it is pending", later, 1)
	r.must(confirm("a", 1))
	s := plainState(1, 8)
	s.Version, s.Instances = 2, []*agentv1.Instance{instanceOn(1, 1)}
	a.report(s)
	keeps("its host reports it", later, 1)
	s = plainState(1, 8)
	s.Version = 3
	a.report(s)
	if c := r.cell.rows.Claim("a"); c == nil || c.State != shard.Confirmed {
		t.Fatalf("what an agent does not list is %+v", c)
	}
	keeps("the rows are older than the claim", r.cell.rows.Claim("a").UpdatedAt.Add(-time.Microsecond), 1)
	if claimed, released := r.deleted(later, 1, 7); released != 1 || len(claimed) != 0 {
		t.Errorf("%d released, %v have claims", released, claimed)
	}
	r.usedVCPUs(1, 0)

	r.must(newClaim("b", 2, 1, 1))
	r.must(confirm("b", 2))
	if claimed, released := r.deleted(later, 2); released != 1 || len(claimed) != 0 {
		t.Errorf("no report ever had it: %d released, %v have claims", released, claimed)
	}

	r.register(unknownState(2, 8))
	r.must(newClaim("c", 3, 2, 1))
	r.must(confirm("c", 3))
	keeps("the rows are older than the claim, and its agent does not know its instances", r.cell.rows.Claim("c").UpdatedAt.Add(-time.Microsecond), 3)
	if claimed, released := r.deleted(later, 3); released != 1 || len(claimed) != 0 {
		t.Errorf("its agent does not know its instances, and no import ever had it: %d released, %v have claims", released, claimed)
	}
	r.imported(importedState(3, 1), &cellv1.ImportOutcome{})
	r.must(newClaim("d", 4, 3, 1))
	r.must(confirm("d", 4))
	keeps("the rows of its imported host are older than the claim", r.cell.rows.Claim("d").UpdatedAt.Add(-time.Microsecond), 4)
	if claimed, released := r.deleted(later, 4); released != 1 || len(claimed) != 0 {
		t.Errorf("its host is imported, and no import ever had it: %d released, %v have claims", released, claimed)
	}
}

func TestDeletedRowsAreOfAMoment(t *testing.T) {
	r := start(t, newStore(t))
	for _, in := range []*cellv1.ImportHostsRequest{
		{Deleted: make([]byte, 16)},
		{Deleted: make([]byte, 15), InstancesAt: timestamppb.Now()},
	} {
		if _, err := r.cells.ImportHosts(context.Background(), in); fault.KindOf(err) != fault.InvalidRequest {
			t.Errorf("%v: %v", in, err)
		}
	}
}

// A deleted row releases nothing on a silent host, whose instances are unknown.
func TestADeletedRowReleasesNothingOfASilentHost(t *testing.T) {
	r := start(t, newStore(t))
	a := r.register(plainState(1, 8))
	r.must(newClaim("a", 1, 1, 1))
	r.must(confirm("a", 1))
	if err := a.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for _, err := a.stream.Recv(); err == nil; {
		_, err = a.stream.Recv()
	}
	if _, released := r.deleted(time.Now().Add(time.Hour), 1); released != 0 {
		t.Error("its claim was released")
	}
}
