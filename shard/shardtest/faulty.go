package shardtest

import (
	"context"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Faulty is a store with a fault before or after each of its calls, for tests
// of who uses one. Hooks are called concurrently; a nil one does nothing. Set
// them before use.
type Faulty struct {
	shard.Store
	// Before is called before a call is passed on. An error is the call's, and
	// nothing happens. It may wait, for a delay; ctx is the call's.
	Before func(ctx context.Context, call Call) error
	// After is called when a call was done without an error. An error is what
	// the caller gets of a call that worked.
	After func(ctx context.Context, call Call) error
}

// Call says which call of a store.
type Call struct {
	// Name is the method's: Apply, Load …
	Name string
	// Lane and Ops are Apply's.
	Lane shard.LaneID
	Ops  []shard.Op
}

// Unavailable is what a store says that cannot be reached: nothing was done.
func Unavailable() error { return fault.New(fault.CellUnavailable, "a fault of the test: unavailable") }

// Unknown is what a store says that does not know whether it wrote: from After,
// it worked but the caller got an error; from Before, it did not.
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

// Apply passes on. A caller that gets an error gets no outcomes.
func (l *faultyLane) Apply(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
	var a shard.Applied
	c := Call{Name: "Apply", Lane: l.ID(), Ops: ops}
	if err := l.faults.call(ctx, c, func() (err error) { a, err = l.Lane.Apply(ctx, ops); return err }); err != nil {
		return shard.Applied{}, err
	}
	return a, nil
}
