package cell

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"cellgate/shard"
)

// novaBatch is how many words of services go into the pipeline at once.
const novaBatch = 256

// novaWatch keeps what Nova's services say of hosts in the shard, as gateways report it:
// beside the operator's word, so that every replica has it, and claims are checked by it.
// It is written when it changes. Where several gateways report, the worst counts. It stays
// while nobody reports, and of hosts that no report names.
type novaWatch struct {
	gate *gatekeeper
	rows *rows
	// do commits operations; see pipeline.
	do  func(ctx context.Context, ops []shard.Op, urgent bool) ([]answer, error)
	log *slog.Logger
	// failing: the last ones were not written, and that was said.
	failing bool
}

// novaWord is what a service says of its host; the zero value is nothing against it.
type novaWord struct {
	state  shard.NovaState
	reason string
}

// word gives what the service says: as Nova's ComputeFilter, which takes no host that is
// disabled or whose nova-compute is down.
func (s *legacyService) word() novaWord {
	switch {
	case s.forcedDown:
		return novaWord{shard.NovaForcedDown, s.reason}
	case s.disabled:
		return novaWord{shard.NovaDisabled, s.reason}
	case !s.up:
		return novaWord{state: shard.NovaSilent}
	}
	return novaWord{}
}

// novaOrder has the states from none to the worst.
var novaOrder = []shard.NovaState{"", shard.NovaSilent, shard.NovaDisabled, shard.NovaForcedDown}

// worse orders words; those that differ in the reason alone by that, as reports have no order.
func (w novaWord) worse(than novaWord) bool {
	if c := cmp.Compare(slices.Index(novaOrder, w.state), slices.Index(novaOrder, than.state)); c != 0 {
		return c > 0
	}
	return w.reason > than.reason
}

// run writes what is new after each report, until ctx ends.
func (n *novaWatch) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.gate.news:
		}
		err := n.write(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !n.failing:
			n.log.Warn("what Nova's services say of hosts was not written", "err", err)
		case err == nil && n.failing:
			n.log.Info("what Nova's services say of hosts is written again")
		}
		n.failing = err != nil
	}
}

// write writes the words that are others than the rows have. What it does not write is
// tried again after the next report.
func (n *novaWatch) write(ctx context.Context) error {
	changes := n.changes()
	for at := range slices.Chunk(changes, novaBatch) {
		ops := make([]shard.Op, len(at))
		for i := range at {
			ops[i] = shard.Op{SetNovaState: &at[i]}
		}
		answers, err := n.do(ctx, ops, false)
		if err != nil {
			return err
		}
		for i, a := range answers {
			switch {
			case a.err != nil:
				return a.err
			case a.outcome.Refusal != nil:
				return fmt.Errorf("host %s: %s", at[i].HostUUID, a.outcome.Refusal.Message)
			}
		}
	}
	if len(changes) > 0 {
		first := &changes[0]
		n.log.Info("audit: Nova's services say otherwise of hosts", "hosts", len(changes), "first", first.HostUUID, "state", string(first.State), "reason", first.Reason)
	}
	return nil
}

// changes gives the words that the rows do not have, by host.
func (n *novaWatch) changes() []shard.SetNovaState {
	reports := n.gate.services()
	worst := wordsOf(reports)
	var list []shard.SetNovaState
	n.rows.mu.RLock()
	defer n.rows.mu.RUnlock()
	for uuid, w := range worst {
		if row := n.rows.hosts[uuid]; row != nil && row.host != nil && row.novaWord() != w {
			list = append(list, shard.SetNovaState{HostUUID: uuid, State: w.state, Reason: w.reason})
		}
	}
	ended := map[string]bool{}
	for uuid := range n.rows.byNova {
		if _, still := worst[uuid]; !still {
			ended[uuid] = true
		}
	}
	if len(ended) > 0 {
		for uuid := range servedIn(reports, ended) {
			list = append(list, shard.SetNovaState{HostUUID: uuid})
		}
	}
	slices.SortFunc(list, func(a, b shard.SetNovaState) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
	return list
}

// wordsOf gives the worst word of each compute node that some service says something
// against.
func wordsOf(reports [][]legacyService) map[string]novaWord {
	worst := map[string]novaWord{}
	for _, services := range reports {
		for i := range services {
			w := services[i].word()
			if w.state == "" {
				continue
			}
			for _, uuid := range services[i].nodes {
				if w.worse(worst[uuid]) {
					worst[uuid] = w
				}
			}
		}
	}
	return worst
}

// servedIn gives those of some compute nodes that a report has a service of.
func servedIn(reports [][]legacyService, of map[string]bool) map[string]bool {
	in := map[string]bool{}
	for _, services := range reports {
		for i := range services {
			for _, uuid := range services[i].nodes {
				if of[uuid] {
					in[uuid] = true
				}
			}
		}
	}
	return in
}

func (row *hostRow) novaWord() novaWord {
	if row.admin == nil {
		return novaWord{}
	}
	return novaWord{row.admin.Nova, row.admin.NovaReason}
}

// services gives those of each report. Reports of gateways that cannot read them say
// nothing.
func (k *gatekeeper) services() [][]legacyService {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	var reports [][]legacyService
	for _, g := range k.gateways {
		if g.unreadable == "" {
			reports = append(reports, g.services)
		}
	}
	return reports
}
