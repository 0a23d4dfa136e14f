package shardtest

import (
	"context"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Faulty wraps a store and puts faults before or after its calls, to test the store's users. Callers run the hooks
// concurrently. A nil hook does nothing. Set the hooks before use.
type Faulty struct {
	shard.Store
	// Faulty calls Before ahead of each call, with the call's ctx. If Before returns an error, the caller gets it and
	// nothing happens. Before may also wait, to delay the call.
	Before func(ctx context.Context, call Call) error
	// Faulty calls After once a call has succeeded. If After returns an error, the caller gets it although the call
	// worked.
	After func(ctx context.Context, call Call) error
}

// Call describes one call of a store.
type Call struct {
	// Name is the method's name: Apply, Load …
	Name string
	// Lane and Ops are set for Apply only.
	Lane shard.LaneID
	Ops  []shard.Op
}

// Unavailable is the error of a store that cannot be reached: nothing was written.
func Unavailable() error { return fault.New(fault.CellUnavailable, "a fault of the test: unavailable") }

// Unknown is the error of a store that does not know whether it wrote. Returned by After, the call worked; returned
// by Before, it did not.
func Unknown() error { return fault.New(fault.OutcomeUnknown, "a fault of the test: outcome unknown") }

var _ shard.Store = (*Faulty)(nil)

func (f *Faulty) call(ctx context.Context, c Call, do func() error) error {
	if f.Before != nil {
		if err := f.Before(ctx, c); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if f.After != nil {
		return f.After(ctx, c)
	}
	return nil
}

// Now passes on.
func (f *Faulty) Now(ctx context.Context) (t time.Time, err error) {
	err = f.call(ctx, Call{Name: "Now"}, func() error { t, err = f.Store.Now(ctx); return err })
	return t, err
}

// OpenLane passes on; the lane is faulty too.
func (f *Faulty) OpenLane(ctx context.Context, replica string) (l shard.Lane, err error) {
	err = f.call(ctx, Call{Name: "OpenLane"}, func() error { l, err = f.Store.OpenLane(ctx, replica); return err })
	if err != nil {
		return nil, err
	}
	return &faultyLane{Lane: l, faults: f}, nil
}

// Load passes on.
func (f *Faulty) Load(ctx context.Context, visit func(shard.Change) error) (at shard.Cursor, err error) {
	err = f.call(ctx, Call{Name: "Load"}, func() error { at, err = f.Store.Load(ctx, visit); return err })
	return at, err
}

// FindClaims passes on.
func (f *Faulty) FindClaims(ctx context.Context, q shard.ClaimQuery) (p shard.ClaimPage, err error) {
	err = f.call(ctx, Call{Name: "FindClaims"}, func() error { p, err = f.Store.FindClaims(ctx, q); return err })
	return p, err
}

// Due passes on.
func (f *Faulty) Due(ctx context.Context, limit int) (refs []shard.ClaimRef, err error) {
	err = f.call(ctx, Call{Name: "Due"}, func() error { refs, err = f.Store.Due(ctx, limit); return err })
	return refs, err
}

// Tail passes on.
func (f *Faulty) Tail(ctx context.Context, from shard.Cursor, limit int) (es []shard.Entry, at shard.Cursor, err error) {
	err = f.call(ctx, Call{Name: "Tail"}, func() error { es, at, err = f.Store.Tail(ctx, from, limit); return err })
	return es, at, err
}

// Trim passes on.
func (f *Faulty) Trim(ctx context.Context, before time.Time) error {
	return f.call(ctx, Call{Name: "Trim"}, func() error { return f.Store.Trim(ctx, before) })
}

// PutDecisions passes on.
func (f *Faulty) PutDecisions(ctx context.Context, ds []shard.Decision) error {
	return f.call(ctx, Call{Name: "PutDecisions"}, func() error { return f.Store.PutDecisions(ctx, ds) })
}

// FindDecisions passes on.
func (f *Faulty) FindDecisions(ctx context.Context, q shard.DecisionQuery) (p shard.DecisionPage, err error) {
	err = f.call(ctx, Call{Name: "FindDecisions"}, func() error { p, err = f.Store.FindDecisions(ctx, q); return err })
	return p, err
}

// TrimDecisions passes on.
func (f *Faulty) TrimDecisions(ctx context.Context, before time.Time, keep int) error {
	return f.call(ctx, Call{Name: "TrimDecisions"}, func() error { return f.Store.TrimDecisions(ctx, before, keep) })
}

type faultyLane struct {
	shard.Lane
	faults *Faulty
}

// Apply passes on. If the caller gets an error, it gets no outcomes.
func (l *faultyLane) Apply(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
	var a shard.Applied
	c := Call{Name: "Apply", Lane: l.ID(), Ops: ops}
	if err := l.faults.call(ctx, c, func() (err error) { a, err = l.Lane.Apply(ctx, ops); return err }); err != nil {
		return shard.Applied{}, err
	}
	return a, nil
}
