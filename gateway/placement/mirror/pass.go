package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"cellgate/gateway/placement"
)

// What is a kind of difference.
type What string

// The kinds describe the target compared with the source.
const (
	NameMissing     What = "name missing"
	NameExtra       What = "name extra"
	ProviderMissing What = "provider missing"
	ProviderDiffers What = "provider differs"
	ProviderExtra   What = "provider extra"
	// ProviderAgents: an agent reports the provider's tree, and nothing else may change it.
	ProviderAgents  What = "provider of an agent"
	ConsumerMissing What = "consumer missing"
	ConsumerDiffers What = "consumer differs"
	ConsumerExtra   What = "consumer extra"
	// ConsumerAgents: the consumer holds something of such a tree.
	ConsumerAgents What = "consumer of an agent"
)

// Line is a difference.
type Line struct {
	What   What   `json:"what"`
	Object string `json:"object"`
	Detail string `json:"detail,omitempty"`
	// Error is why the difference could not be corrected.
	Error string `json:"error,omitempty"`
}

// Report is what a pass found.
type Report struct {
	At        time.Time `json:"at"`
	Providers int       `json:"providers"`
	Consumers int       `json:"consumers"`
	// Counts are differences by kind, before anything was written; Failed of them could not be corrected.
	Counts map[What]int `json:"differences"`
	Failed int          `json:"failed"`
	// Refused is why a pass that is not dry would write nothing; see DeletionsError.
	Refused string `json:"refused,omitempty"`
	// Lines are the first differences; those that could not be corrected come first.
	Lines []Line `json:"lines"`
}

// Equal reports whether there was no difference.
func (r *Report) Equal() bool { return len(r.Counts) == 0 }

// PassConfig says what a pass does.
type PassConfig struct {
	// Dry writes nothing.
	Dry bool
	// AllowDeletions permits any number of deletions. Without it, a pass that would delete most of the target's
	// providers writes nothing, and returns a DeletionsError.
	AllowDeletions bool
	// MaxLines bounds Report.Lines; 0 for 100.
	MaxLines int
	// Progress, if not nil, is called with the pass's progress: done of all objects of a kind.
	Progress func(what string, done, all int)
}

// pass is the state of one Pass.
type pass struct {
	*Mirror
	PassConfig
	mu     sync.Mutex
	report *Report
}

// Pass compares everything, and copies what differs unless it is Dry: names, providers from the roots down,
// consumers, and last the deletions. A single difference that cannot be corrected is in the report. An error means
// that the source or the target did not answer, or is a DeletionsError.
func (m *Mirror) Pass(ctx context.Context, cfg PassConfig) (*Report, error) {
	cfg.MaxLines = cmp.Or(cfg.MaxLines, 100)
	if cfg.Progress == nil {
		cfg.Progress = func(string, int, int) {}
	}
	p := &pass{Mirror: m, PassConfig: cfg, report: &Report{At: time.Now(), Counts: map[What]int{}}}
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.report.Lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Error, a.Error), cmp.Compare(a.What, b.What), cmp.Compare(a.Object, b.Object))
	})
	p.report.Lines = p.report.Lines[:min(len(p.report.Lines), cfg.MaxLines)]
	return p.report, nil
}

// DeletionsError refuses a pass that would delete most of the target's providers: the source is probably the wrong
// one.
type DeletionsError struct {
	Source, Target string
	// Listed is the number of the source's providers; of the target's Had providers, Deleted would be deleted.
	Listed, Deleted, Had int
}

func (e *DeletionsError) Error() string {
	return fmt.Sprintf("nothing was written: %s has %d providers, and %s has %d, of which %d would be deleted. Check that the first one is the Placement that is right, and the second one is to become equal to it. If so, \"cellgate placement copy --allow-deletions\" does it",
		e.Source, e.Listed, e.Target, e.Had, e.Deleted)
}

// deletedUnasked is the number of target providers up to which a pass may delete most of them without AllowDeletions.
const deletedUnasked = 10

// refuseDeletions returns a DeletionsError if the source has no providers and the target has, or if most of the
// target's would be deleted. Providers in trees that agents report are never deleted, so they do not count.
func (p *pass) refuseDeletions(ctx context.Context, listed, have []provider) error {
	isMost := func(n int) bool {
		return len(listed) == 0 && len(have) > 0 || len(have) > deletedUnasked && 2*n > len(have)
	}
	extra := extraProviders(listed, have)
	if !isMost(len(extra)) {
		return nil
	}
	deleted := 0
	for _, one := range extra {
		err := p.leaveAgent(ctx, one.UUID)
		if placement.ReasonOf(err) == placement.AgentTree {
			continue
		}
		if err != nil {
			return err
		}
		deleted++
	}
	if !isMost(deleted) {
		return nil
	}
	return &DeletionsError{Source: p.source.base, Target: p.target.base, Listed: len(listed), Deleted: deleted, Had: len(have)}
}

func (p *pass) run(ctx context.Context) error {
	// The target is read first, so that a provider copied to it between the two lists is not taken as deleted.
	have, err := p.target.providers(ctx, "")
	if err != nil {
		return err
	}
	listed, err := p.source.providers(ctx, "")
	if err != nil {
		return err
	}
	p.report.Providers = len(listed)
	if !p.AllowDeletions {
		err := p.refuseDeletions(ctx, listed, have)
		if refused := (*DeletionsError)(nil); p.Dry && errors.As(err, &refused) {
			p.report.Refused = refused.Error()
		} else if err != nil {
			return err
		}
	}
	if err := p.compareNames(ctx, NameMissing, p.target.putName); err != nil {
		return err
	}
	if err := p.copyProviders(ctx, listed); err != nil {
		return err
	}
	if err := p.copyConsumers(ctx, listed, have); err != nil {
		return err
	}
	if err := p.deleteProviders(ctx, listed, have); err != nil {
		return err
	}
	if err := p.compareNames(ctx, NameExtra, p.target.deleteName); err != nil {
		return err
	}
	return ctx.Err()
}

// found records a difference, and corrects it with put. A dry pass calls probe instead, if it is not nil, to find out
// whether an agent reports the object. An error that is no refusal ends the pass.
func (p *pass) found(what What, object, detail string, put, probe func() error) error {
	line := Line{What: what, Object: object, Detail: detail}
	do := put
	if p.Dry {
		do = probe
	}
	var err, ends error
	if do != nil {
		err = do()
	}
	switch reason := placement.ReasonOf(err); {
	case reason == placement.AgentTree:
		line.What = ProviderAgents
		if what == ConsumerMissing || what == ConsumerDiffers || what == ConsumerExtra {
			line.What = ConsumerAgents
		}
	case reason != "", statusOf(err) == http.StatusConflict, statusOf(err) == http.StatusBadRequest, errors.Is(err, errChanging):
		line.Error = err.Error() // the target refused it, or it changes all the time
	case err != nil:
		ends = fmt.Errorf("%s %s: %w", what, object, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Counts[line.What]++
	if line.Error != "" {
		p.report.Failed++
	}
	if line.Error != "" || len(p.report.Lines) < p.MaxLines {
		p.report.Lines = append(p.report.Lines, line)
	}
	return ends
}

// each calls do for the entries of list, some at a time, and ends with the first error.
func each[T any](ctx context.Context, p *pass, what string, list []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(p.parallel)
	var mu sync.Mutex
	done := 0
	for _, one := range list {
		g.Go(func() error {
			if err := do(ctx, one); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			p.Progress(what, done, len(list))
			return nil
		})
	}
	return g.Wait()
}

// compareNames finds the names that are missing or extra, and corrects each with put.
func (p *pass) compareNames(ctx context.Context, what What, put func(context.Context, placement.NameKind, string) error) error {
	for _, kind := range []placement.NameKind{placement.ClassName, placement.TraitName} {
		have, err := p.target.names(ctx, kind)
		if err != nil {
			return err
		}
		want, err := p.source.names(ctx, kind)
		if err != nil {
			return err
		}
		differ := without(want, have)
		if what == NameExtra {
			differ = without(have, want)
		}
		for _, name := range differ {
			if err := p.found(what, name, "", func() error { return put(ctx, kind, name) }, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyProviders copies from the roots down, one level of the trees after the other.
func (p *pass) copyProviders(ctx context.Context, listed []provider) error {
	for _, level := range levels(listed) {
		if err := each(ctx, p, "providers", level, p.copyListed); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) copyListed(ctx context.Context, listed provider) error {
	have, err := p.target.provider(ctx, listed.UUID)
	if err != nil {
		return err
	}
	put := func() error { return p.CopyProvider(ctx, listed.UUID, "") }
	if have == nil {
		return p.found(ProviderMissing, listed.UUID, listed.Name, put, func() error {
			if listed.Parent == "" {
				return nil
			}
			return p.leaveAgent(ctx, listed.Parent)
		})
	}
	want, err := p.source.provider(ctx, listed.UUID)
	if err != nil || want == nil {
		return err // deleted since it was listed: the next pass finds that
	}
	w := providerWrite(have, want)
	if w == nil {
		return nil
	}
	return p.found(ProviderDiffers, listed.UUID, explain(have, w), put, func() error { return p.leaveAgent(ctx, listed.UUID) })
}

// levels divides providers into the roots, their children, and so on.
func levels(listed []provider) (out [][]provider) {
	parents := make(map[string]string, len(listed))
	for _, one := range listed {
		parents[one.UUID] = one.Parent
	}
	for _, one := range listed {
		depth := 0
		for up := one.Parent; up != "" && depth < len(listed); up = parents[up] {
			depth++
		}
		for len(out) <= depth {
			out = append(out, nil)
		}
		out[depth] = append(out[depth], one)
	}
	return out
}

// copyConsumers compares what consumers hold of each provider, with one request for each provider to each side.
func (p *pass) copyConsumers(ctx context.Context, listed, have []provider) error {
	want, err := p.consumersOf(ctx, p.source, listed)
	if err != nil {
		return err
	}
	p.report.Consumers = len(want)
	// Providers that were just copied have consumers, too.
	held, err := p.consumersOf(ctx, p.target, append(slices.Clone(listed), extraProviders(listed, have)...))
	if err != nil {
		return err
	}
	all := maps.Clone(want)
	maps.Copy(all, held)
	return each(ctx, p, "consumers", slices.Sorted(maps.Keys(all)), func(ctx context.Context, id string) error {
		a, b := held[id], want[id]
		put := func() error { return p.CopyConsumer(ctx, id) }
		probe := func() error { return p.leaveAgents(ctx, &placement.Consumer{Allocations: a}) }
		switch {
		case b == nil:
			return p.found(ConsumerExtra, id, "holds "+describe(a), put, probe)
		case a == nil:
			return p.found(ConsumerMissing, id, "holds "+describe(b), put, nil)
		case equalAllocations(a, b):
			return p.compareOwners(ctx, id, put, probe)
		}
		return p.found(ConsumerDiffers, id, fmt.Sprintf("holds %s, not %s", describe(a), describe(b)), put, probe)
	})
}

// compareOwners compares project, user and type, which the list of a provider's consumers does not have.
func (p *pass) compareOwners(ctx context.Context, id string, put, probe func() error) error {
	have, err := p.target.consumer(ctx, id)
	if err != nil || have == nil {
		return err
	}
	want, err := p.source.consumer(ctx, id)
	if err != nil || want == nil || consumerWrite(have, want) == nil {
		return err
	}
	return p.found(ConsumerDiffers, id, fmt.Sprintf("is of project %s, user %s and type %s, not %s, %s and %s",
		have.ProjectID, have.UserID, have.Type, want.ProjectID, want.UserID, want.Type), put, probe)
}

// consumersOf gives what the consumers of a side's providers hold, by consumer.
func (p *pass) consumersOf(ctx context.Context, side *Client, providers []provider) (map[string]placement.Allocations, error) {
	out := map[string]placement.Allocations{}
	var mu sync.Mutex
	err := each(ctx, p, "providers' consumers", providers, func(ctx context.Context, one provider) error {
		holders, err := side.holders(ctx, one.UUID)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for id, h := range holders {
			if out[id] == nil {
				out[id] = placement.Allocations{}
			}
			out[id][one.UUID] = h.Resources
		}
		return nil
	})
	return out, err
}

// extraProviders gives the target's providers that the source does not list.
func extraProviders(listed, have []provider) (extra []provider) {
	stays := make(map[string]bool, len(listed))
	for _, one := range listed {
		stays[one.UUID] = true
	}
	for _, one := range have {
		if !stays[one.UUID] {
			extra = append(extra, one)
		}
	}
	return extra
}

// deleteProviders deletes providers that the source no longer lists, the deepest level first.
func (p *pass) deleteProviders(ctx context.Context, listed, have []provider) error {
	for _, level := range slices.Backward(levels(extraProviders(listed, have))) {
		for _, one := range level {
			if err := p.found(ProviderExtra, one.UUID, one.Name, func() error { return p.CopyProvider(ctx, one.UUID, "") },
				func() error { return p.leaveAgent(ctx, one.UUID) }); err != nil {
				return err
			}
		}
	}
	return nil
}
