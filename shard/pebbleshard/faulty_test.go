package pebbleshard

import (
	"context"
	"testing"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// TestFaulty_WriteWorksAndReportsFailure_IsFoundOut: Before fails a call that is not done, After fails a call that is
// done.
func TestFaulty_WriteWorksAndReportsFailure_IsFoundOut(t *testing.T) {
	s, err := OpenMem(testOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	f := &shardtest.Faulty{Store: s}
	l, err := f.OpenLane(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	put := func(host int) error {
		_, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(host, 8)}})
		return err
	}
	f.Before = func(context.Context, shardtest.Call) error { return shardtest.Unavailable() }
	if err := put(1); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("Apply: %v", err)
	}
	f.Before = nil
	f.After = func(_ context.Context, c shardtest.Call) error {
		if c.Name == "Apply" && c.Lane == l.ID() && len(c.Ops) == 1 {
			return shardtest.Unknown()
		}
		return nil
	}
	if err := put(2); fault.KindOf(err) != fault.OutcomeUnknown {
		t.Errorf("Apply: %v", err)
	}
	rows, _, err := shardtest.LoadRows(t.Context(), f)
	if err != nil || len(rows.Hosts) != 1 || rows.Hosts[shardtest.HostID(2)] == nil {
		t.Errorf("hosts are %+v, %v", rows.Hosts, err)
	}
}
