package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/shard"
)

// leaseLimit is how many expired leases one scan reads at once.
const leaseLimit = 1024

// TrimEvery is how often the journal's old entries, and old decisions, are dropped.
const TrimEvery = time.Minute

// trial releases a claim that does not exist. That writes a tombstone, so it shows whether the shard
// commits again, without a request. Each trial has an id of its own: a database that refuses writes
// still commits what changes nothing.
func trial() shard.Op {
	return shard.Op{Release: &shard.ClaimRef{ClaimID: "trial-" + rand.Text(), ConsumerUUID: schedule.ID{}.String()}}
}

// keeper ends expired leases and maintenances, drops old journal entries and decisions, in store time, and marks
// silent hosts in the shard.
type keeper struct{ *State }

// leases ends expired leases until ctx ends. Several replicas may do so: a second Expire does nothing.
func (k *keeper) leases(ctx context.Context) error {
	return Repeat(ctx, k.cfg.LeaseScan, k.cfg.Log, "leases could not be ended", k.expire)
}

// journalKeep is how long journal entries are kept.
const journalKeep = time.Hour

// trim drops old entries of the journal, and old decisions, until ctx ends.
func (k *keeper) trim(ctx context.Context) error {
	return Repeat(ctx, TrimEvery, k.cfg.Log, "the journal and old decisions could not be trimmed", func(ctx context.Context) error {
		now, err := k.cfg.Store.Now(ctx)
		if err != nil {
			return err
		}
		k.StoreTime.compare(now)
		return errors.Join(k.cfg.Store.Trim(ctx, now.Add(-journalKeep)), k.cfg.Store.TrimDecisions(ctx, now.Add(-k.cfg.DecisionsKeep), k.cfg.MaxDecisions))
	})
}

// expire ends every expired lease.
func (k *keeper) expire(ctx context.Context) error {
	for {
		noteRead := k.Stored.begin(&k.Stored.reads)
		due, err := k.cfg.Store.Due(ctx, leaseLimit)
		if ctx.Err() == nil {
			noteRead(err)
		}
		if err == nil && len(due) == 0 && k.Stored.uncommitted() {
			_, err = k.Queue.DoOne(ctx, trial(), false)
		}
		if err != nil || len(due) == 0 {
			return err
		}
		ops := make([]shard.Op, len(due))
		for i := range due {
			ops[i] = shard.Op{Expire: &due[i]}
		}
		answers, err := k.Queue.Do(ctx, ops, false)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil {
				return a.Err
			}
		}
		if len(due) < leaseLimit {
			return nil
		}
	}
}

// Repeat runs a task at every tick until ctx ends or the store breaks. It logs a failure once until the
// task succeeds again, and tries again at the next tick.
func Repeat(ctx context.Context, every time.Duration, log *slog.Logger, failure string, task func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := task(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case isFatal(err):
			return err
		case err != nil && (!failing || fault.KindOf(err) == fault.Internal):
			log.Warn(failure, "err", err)
		}
		failing = err != nil
	}
}

// SilenceBatch is how many silence marks are set or cleared at once, and SilenceEvery how often. If all
// agents of 10,000 hosts stop at once, marking takes 40 s, and claims are committed in between.
const (
	SilenceBatch = 256
	SilenceEvery = time.Second
)

// silences keeps the silence marks of hosts in the shard until ctx ends, so that a replica that starts
// knows them. Every replica writes what it sees (docs/adr/0020).
func (k *keeper) silences(ctx context.Context) error {
	return Repeat(ctx, SilenceEvery, k.cfg.Log, "which hosts are silent could not be written", func(ctx context.Context) error {
		list := k.Live.PendingMarks(SilenceBatch)
		if len(list) == 0 {
			return nil
		}
		ops := make([]shard.Op, len(list))
		for i := range list {
			ops[i] = shard.Op{SetSilent: &list[i]}
		}
		answers, err := k.Queue.DoAll(ctx, ops)
		if err != nil {
			return err
		}
		for i, a := range answers {
			if a.Outcome.AdminState.IsSilent() != list[i].Silent {
				k.Live.DropMark(list[i].HostUUID) // no agent reports it any more
			}
		}
		return nil
	})
}

// maintenances ends expired maintenances until ctx ends. Several replicas may do so, as with leases.
func (k *keeper) maintenances(ctx context.Context) error {
	return Repeat(ctx, k.cfg.LeaseScan, k.cfg.Log, "maintenances could not be ended", func(ctx context.Context) error {
		var ops []shard.Op
		for _, host := range k.Rows.overdue(k.StoreTime.Now(), leaseLimit) { // the shard goes by exact store time
			ops = append(ops, shard.Op{EndMaintenance: &shard.EndMaintenance{HostUUID: host}})
		}
		answers, err := k.Queue.Do(ctx, ops, false)
		if err != nil {
			return err
		}
		for _, a := range answers {
			switch {
			case a.Err != nil:
				return a.Err
			case a.Outcome.AdminState != nil && a.Outcome.AdminState.State != shard.ConditionMaintenance:
				k.cfg.Log.Info("audit: a maintenance is over", "host_uuid", a.Outcome.AdminState.HostUUID, "reason", a.Outcome.AdminState.Reason, "since", a.Outcome.AdminState.Since)
			}
		}
		return nil
	})
}
