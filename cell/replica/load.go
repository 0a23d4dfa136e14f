package replica

import (
	"context"
	"slices"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// MaxLoads bounds how often a start tries again after the store breaks off a load in its middle.
// CockroachDB may do so if others write many of the rows that are read.
const MaxLoads = 5

// loadAtStart loads the shard at the start. If a load breaks off in the middle, it soon tries again. If
// the store returns no row at all, it fails, and whoever started the process decides.
func (f *follower) loadAtStart(ctx context.Context) error {
	visited := false
	cursor, _, err := f.load(ctx, func() { visited = true })
	if err == nil {
		f.Journal.moveTo(cursor)
		return nil
	}
	for n := 1; n < MaxLoads && err != nil && visited && fault.KindOf(err) == fault.CellUnavailable; n++ {
		f.cfg.Log.Warn("the load of the shard broke off, and is begun anew", "err", err)
		wait := time.NewTimer(time.Duration(n) * 100 * time.Millisecond)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
		err = f.reload(ctx)
	}
	return err
}

// LoadBatch is how many rows become one version while loading.
const LoadBatch = 4096

// load brings the whole shard into the table. Once the table shows it, load returns the journal's
// position of that state and the ids of its live claims. It calls visited for each row. Rows that the
// own lane commits meanwhile are newer and stay.
func (f *follower) load(ctx context.Context, visited func()) (shard.Cursor, map[string]struct{}, error) {
	var batch []shard.Change
	live := map[string]struct{}{}
	cursor, err := f.from.Load(ctx, func(c shard.Change) error {
		visited()
		f.knowGate(c.Gate) // the gate comes first, if there is one
		if c.Claim != nil {
			live[c.Claim.ClaimID] = struct{}{}
		}
		batch = append(batch, c)
		if len(batch) == LoadBatch {
			f.Writer.publish(tableUpdate{changes: batch})
			batch = nil
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	f.knowGate(nil) // an empty shard
	shown := make(chan struct{})
	f.Writer.publish(tableUpdate{changes: batch, afterPublish: func() { close(shown) }})
	<-shown
	return cursor, live, nil
}

// knowGate publishes the gate, nil for none, before anything else of the shard.
func (f *follower) knowGate(g *shard.Gate) {
	f.gateOnce.Do(func() {
		f.Writer.publish(tableUpdate{changes: gateChange(g), afterPublish: func() { close(f.gateKnown) }})
	})
}

// KnowsGate reports whether the rows have the gate, if there is one.
func (f *follower) KnowsGate() bool {
	select {
	case <-f.gateKnown:
		return true
	default:
		return false
	}
}

// reload is load for a replica that missed a part of the journal. Claims that the replica
// knows and the shard did not list have ended, or were made after the reading: reload reads
// each of them from the shard.
func (f *follower) reload(ctx context.Context) error {
	cursor, live, err := f.load(ctx, func() {})
	if err != nil {
		return err
	}
	var missing []string
	for _, c := range f.Rows.LiveClaims() {
		if _, ok := live[c.ClaimID]; !ok {
			missing = append(missing, c.ClaimID)
		}
	}
	for ids := range slices.Chunk(missing, 1000) {
		if err := f.lookUp(ctx, ids); err != nil {
			return err
		}
	}
	f.Journal.moveTo(cursor)
	return nil
}

// lookUp brings in claims by id as the shard has them now. A claim that the shard no longer knows has
// ended.
func (f *follower) lookUp(ctx context.Context, ids []string) error {
	page, err := f.cfg.Store.FindClaims(ctx, shard.ClaimQuery{ClaimIDs: ids, Ended: true, Limit: len(ids)})
	if err != nil {
		return err
	}
	var changes []shard.Change
	found := map[string]struct{}{}
	for _, c := range page.Claims {
		found[c.ClaimID] = struct{}{}
		changes = append(changes, shard.Change{Claim: c})
	}
	for _, id := range ids {
		known := f.Rows.Claim(id)
		if _, ok := found[id]; ok || known == nil {
			continue
		}
		ended := *known
		ended.State = shard.Released
		changes = append(changes, shard.Change{Claim: &ended})
	}
	f.Writer.publish(tableUpdate{changes: changes})
	return nil
}

func gateChange(g *shard.Gate) []shard.Change {
	if g == nil {
		return nil
	}
	return []shard.Change{{Gate: g}}
}
