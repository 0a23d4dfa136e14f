package shardtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"cellgate/shard"
)

// check compares a window (nil for the beginning) with the store. Nothing may be under way.
func (s *Storm) check(ctx context.Context, w *window) ([]string, error) {
	rows, _, err := LoadRows(ctx, s.Look)
	if err != nil {
		return nil, err
	}
	entries, err := s.follow(ctx)
	if err != nil {
		return nil, err
	}
	wrong := append(rows.Check(), rows.Overfull()...)
	if w != nil {
		if err := s.lookUp(ctx, w); err != nil {
			return nil, err
		}
		wrong = append(append(wrong, w.wrong...), s.promises(w, entries)...)
		if got := porcupine.CheckOperationsTimeout(provider, w.history, time.Minute); got != porcupine.Ok {
			wrong = append(wrong, fmt.Sprintf("linearizable is %v for a window of %d operations", got, len(w.history)))
		}
		w.sums.Longest = len(w.history)
		s.Sums.add(w.sums)
	}
	for _, list := range entries {
		wrong = append(wrong, overfull(list)...)
	}
	for _, d := range rows.Diff(s.rows) {
		wrong = append(wrong, "rows and journal: "+d)
	}
	return append(wrong, s.compare(rows)...), nil
}

func (s *Sums) add(w Sums) {
	s.Windows++
	s.Operations += w.Operations
	s.Done += w.Done
	s.Refused += w.Refused
	s.Failed += w.Failed
	s.Unknown += w.Unknown
	s.Repeated += w.Repeated
	s.Found += w.Found
	s.Absent += w.Absent
	s.Reads += w.Reads
	s.Longest = max(s.Longest, w.Longest)
}

// follow reads the journal's new entries since the last read.
func (s *Storm) follow(ctx context.Context) (map[shard.LaneID][]shard.Entry, error) {
	_, entries, err := Replay(ctx, s.Look, s.at)
	if err != nil {
		return nil, err
	}
	for lane, list := range entries {
		s.at[lane] = list[len(list)-1].Seq
		for _, e := range list {
			for _, c := range e.Changes {
				s.rows.Put(c, e.At)
			}
		}
	}
	s.rows.Live()
	return entries, nil
}

// overfull returns the entries that take a provider over capacity (I1).
func overfull(list []shard.Entry) (wrong []string) {
	for _, e := range list {
		for _, c := range e.Changes {
			if c.Usage == nil {
				continue
			}
			if used := c.Usage.Of(c.Usage.HostUUID, Class); used > linearCapacity {
				wrong = append(wrong, fmt.Sprintf("I1: entry %d of lane %v has host %s at %d of %d", e.Seq, e.Lane, c.Usage.HostUUID, used, linearCapacity))
			}
		}
	}
	return wrong
}

// promises returns the acknowledged entries that the journal does not have (I3).
func (s *Storm) promises(w *window, entries map[shard.LaneID][]shard.Entry) (wrong []string) {
	for _, p := range w.promises {
		list := entries[p.lane]
		i := slices.IndexFunc(list, func(e shard.Entry) bool { return e.Seq == p.seq })
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("I3: entry %d of lane %v was acknowledged for claim %s, and is lost", p.seq, p.lane, p.claim))
			continue
		}
		if !slices.ContainsFunc(list[i].Changes, func(c shard.Change) bool {
			return c.Claim != nil && c.Claim.ClaimID == p.claim
		}) {
			wrong = append(wrong, fmt.Sprintf("I3: claim %s was acknowledged by entry %d of lane %v, which does not have it", p.claim, p.seq, p.lane))
		}
	}
	return wrong
}

// lookUp finds out what became of the operations whose callers got no answer.
func (s *Storm) lookUp(ctx context.Context, w *window) error {
	for _, st := range w.open {
		id := ClaimID(st.claim.n)
		p, err := s.Look.FindClaims(ctx, shard.ClaimQuery{ClaimIDs: []string{id}, Ended: true})
		if err != nil {
			return err
		}
		var c *shard.Claim
		if len(p.Claims) > 0 {
			c = p.Claims[0]
		}
		if c == nil && st.op.Claim == nil {
			w.wrong = append(w.wrong, fmt.Sprintf("I3: claim %s, which its caller has, is not there", id))
			continue
		}
		done := c != nil
		switch {
		case st.op.Release != nil:
			done = c.State == shard.Released
		case st.op.Confirm != nil:
			done = c.State == shard.Confirmed && st.claim.state != shard.Confirmed
		case st.op.Swap != nil:
			done = c.HostUUID == HostID(st.to)
		}
		if !done {
			w.sums.Absent++
			continue
		}
		w.sums.Found++
		w.happened(st, w.last)
	}
	return nil
}

// compare returns where the live claims differ from those that the callers have.
func (s *Storm) compare(rows *Rows) (wrong []string) {
	for id, h := range s.live {
		c := rows.Claims[id]
		switch {
		case c == nil:
			wrong = append(wrong, fmt.Sprintf("I3: claim %s was acknowledged, and is lost", id))
		case c.State != h.state || c.HostUUID != HostID(h.host) || c.ConsumerUUID != h.consumer || c.Allocations[0].Amount != h.amount:
			wrong = append(wrong, fmt.Sprintf("I3: claim %s is %+v, its caller was answered %+v", id, *c, *h))
		}
	}
	for id, c := range rows.Claims {
		if s.live[id] == nil {
			wrong = append(wrong, fmt.Sprintf("claim %s is live, and nobody was answered: %+v", id, *c))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// End reads the whole journal once more. The journal must have no gap, end where follow ended, and give the store's
// rows.
func (s *Storm) End(ctx context.Context) (wrong []string, err error) {
	replayed, at, err := replay(ctx, s.Look, nil, func(shard.Entry) {})
	if err != nil {
		return nil, err
	}
	for lane, seq := range s.at {
		if at[lane] != seq {
			wrong = append(wrong, fmt.Sprintf("I3: lane %v had %d entries, and has %d", lane, seq, at[lane]))
		}
	}
	rows, _, err := LoadRows(ctx, s.Look)
	if err != nil {
		return nil, err
	}
	for _, d := range rows.Diff(replayed) {
		wrong = append(wrong, "rows and the whole journal: "+d)
	}
	return append(wrong, s.compare(rows)...), nil
}
