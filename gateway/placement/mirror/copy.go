package mirror

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"cellgate/gateway/placement"
)

// Mirror copies from one Placement to another. Safe for concurrent use, and several processes may copy at once.
type Mirror struct {
	source, target *Client
	// parallel is how many objects a pass copies at once.
	parallel int
}

// New mirrors a source to a target. parallel is how many objects a pass copies at once; 0 for 8.
func New(source, target *Client, parallel int) *Mirror {
	return &Mirror{source, target, cmp.Or(parallel, 8)}
}

// depth is the context key of the number of copies that wait for the present one.
type depth struct{}

// maxDepth bounds the nesting of copies. A provider's parents are copied before it, so a few levels suffice; more
// mean a circle.
const maxDepth = 12

func deeper(ctx context.Context) (context.Context, error) {
	n, _ := ctx.Value(depth{}).(int)
	if n == maxDepth {
		return ctx, errChanging
	}
	return context.WithValue(ctx, depth{}, n+1), nil
}

// CopyProvider makes the target's provider equal to the source's, and deletes it if the source has none. A new root
// goes to cell, or where the target's address says if cell is empty.
func (m *Mirror) CopyProvider(ctx context.Context, uuid, cell string) error {
	ctx, err := deeper(ctx)
	if err != nil {
		return fmt.Errorf("provider %s: %w", uuid, err)
	}
	for range readTries {
		have, err := m.target.provider(ctx, uuid)
		if err != nil {
			return err
		}
		want, err := m.source.provider(ctx, uuid)
		if err != nil {
			return err
		}
		w := providerWrite(have, want)
		if w == nil {
			return nil
		}
		if want != nil {
			if err := m.putNames(ctx, want); err != nil {
				return err
			}
		}
		if err := m.target.writeProvider(ctx, w, cell); err != nil {
			if err := m.prepareProvider(ctx, err, uuid, cell, want); err != nil {
				return err
			}
			continue
		}
		now, err := m.source.provider(ctx, uuid)
		if err != nil || providerWrite(want, now) == nil {
			return err
		}
	}
	return fmt.Errorf("provider %s: %w", uuid, errChanging)
}

// prepareProvider copies what the write of a provider was refused for. It returns the refusal if nothing helps.
func (m *Mirror) prepareProvider(ctx context.Context, refused error, uuid, cell string, want *placement.Provider) error {
	switch placement.ReasonOf(refused) {
	case placement.ProviderGeneration, placement.ProviderNotFound:
		return nil // another copy wrote it meanwhile
	case placement.DuplicateProvider: // of the name, or of the uuid: another copy created it meanwhile
		renamed, err := m.freeName(ctx, refused, uuid, want.Name)
		if err != nil || len(renamed) == 0 {
			return err
		}
		if err := m.CopyProvider(ctx, uuid, cell); err != nil {
			return err
		}
		for _, id := range renamed {
			if err := m.CopyProvider(ctx, id, ""); err != nil {
				return err
			}
		}
		return nil
	case placement.ParentNotFound:
		return m.CopyProvider(ctx, want.ParentUUID, cell)
	case placement.InventoryInUse:
		if err := m.addInventories(ctx, uuid, want); err != nil {
			return err
		}
		return m.copyHolders(ctx, uuid)
	case placement.ProviderHasAllocations:
		return m.copyHolders(ctx, uuid)
	case placement.ProviderHasChildren:
		tree, err := m.target.providers(ctx, "?in_tree="+uuid)
		if err != nil {
			return err
		}
		for _, p := range tree {
			if p.Parent == uuid {
				if err := m.CopyProvider(ctx, p.UUID, cell); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return refused
}

// freeName renames the target's providers that have a name which they no longer have in the source. The caller copies
// them after it has used the name: the names of several providers may have rotated.
func (m *Mirror) freeName(ctx context.Context, refused error, uuid, name string) (renamed []string, err error) {
	taken, err := m.target.providers(ctx, "?name="+url.QueryEscape(name))
	if err != nil {
		return nil, err
	}
	for _, p := range taken {
		if p.UUID == uuid {
			continue
		}
		still, err := m.source.provider(ctx, p.UUID)
		if err != nil {
			return renamed, err
		}
		if still != nil && still.Name == name {
			return renamed, refused
		}
		between := "copied-" + p.UUID
		err = m.target.writeProvider(ctx, &placement.ProviderWrite{UUID: p.UUID, Name: &between}, "")
		if placement.ReasonOf(err) == placement.ProviderNotFound {
			continue // another copy deleted it meanwhile
		}
		if err != nil {
			return renamed, err
		}
		renamed = append(renamed, p.UUID)
	}
	return renamed, nil
}

// addInventories adds the wanted inventories to a provider and keeps its others. Consumers may have moved in a circle
// between providers, each of which loses an inventory that another one's consumer still holds.
func (m *Mirror) addInventories(ctx context.Context, uuid string, want *placement.Provider) error {
	have, err := m.target.provider(ctx, uuid)
	if err != nil || have == nil {
		return err
	}
	all := map[string]placement.Inventory{}
	maps.Copy(all, have.Inventories)
	maps.Copy(all, want.Inventories)
	if maps.Equal(all, have.Inventories) {
		return nil
	}
	err = m.target.writeProvider(ctx, &placement.ProviderWrite{UUID: uuid, Generation: &have.Generation, Inventories: &all}, "")
	if placement.ReasonOf(err) == placement.ProviderGeneration {
		return nil // another copy wrote it meanwhile
	}
	return err
}

// copyHolders copies the consumers that hold something of the target's provider.
func (m *Mirror) copyHolders(ctx context.Context, provider string) error {
	held, err := m.target.holders(ctx, provider)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(held)) {
		if err := m.CopyConsumer(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// CopyConsumer makes the target's consumer equal to the source's, which may hold nothing.
func (m *Mirror) CopyConsumer(ctx context.Context, uuid string) error {
	ctx, err := deeper(ctx)
	if err != nil {
		return fmt.Errorf("consumer %s: %w", uuid, err)
	}
	for range readTries {
		have, err := m.target.consumer(ctx, uuid)
		if err != nil {
			return err
		}
		want, err := m.source.consumer(ctx, uuid)
		if err != nil {
			return err
		}
		w := consumerWrite(have, want)
		if w == nil {
			return nil
		}
		if err := m.leaveAgents(ctx, have); err != nil {
			return err
		}
		err = m.target.writeConsumer(ctx, w)
		switch placement.ReasonOf(err) {
		case placement.ConsumerGeneration:
			continue
		case placement.ProviderNotFound, placement.InventoryMissing:
			if err := m.copyHeld(ctx, want); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		now, err := m.source.consumer(ctx, uuid)
		if err != nil || consumerWrite(want, now) == nil {
			return err
		}
	}
	return fmt.Errorf("consumer %s: %w", uuid, errChanging)
}

// neverGeneration is a generation that no provider reaches.
const neverGeneration = 1 << 40

// leaveAgents refuses (AgentTree) to change a target's consumer that holds something of a host whose tree an agent
// reports: that is a claim, which the source may not know.
func (m *Mirror) leaveAgents(ctx context.Context, have *placement.Consumer) error {
	if have == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(have.Allocations)) {
		if err := m.leaveAgent(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// leaveAgent refuses (AgentTree) a provider of the target whose tree an agent reports, and changes nothing. Only a
// refused write tells whether an agent reports a tree. So it writes with a generation that no provider has, which
// other trees refuse too.
func (m *Mirror) leaveAgent(ctx context.Context, uuid string) error {
	generation, none := int64(neverGeneration), []string{}
	err := m.target.writeProvider(ctx, &placement.ProviderWrite{UUID: uuid, Generation: &generation, Traits: &none}, "")
	switch placement.ReasonOf(err) {
	case placement.AgentTree:
		return err
	case placement.ProviderGeneration, placement.ProviderNotFound:
		return nil
	}
	return fmt.Errorf("whether an agent reports provider %s: %w", uuid, cmp.Or(err, errChanging))
}

// copyHeld gives the target the providers and inventories that a consumer holds. A provider that exists keeps its
// other inventories: before their removal its other consumers would have to be copied, and so on from provider to
// provider.
func (m *Mirror) copyHeld(ctx context.Context, c *placement.Consumer) error {
	for _, id := range slices.Sorted(maps.Keys(c.Allocations)) {
		have, err := m.target.provider(ctx, id)
		if err != nil {
			return err
		}
		want, err := m.source.provider(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case have == nil:
			err = m.CopyProvider(ctx, id, "")
		case want != nil:
			if err = m.putNames(ctx, want); err == nil {
				err = m.addHeld(ctx, id, want)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addHeld adds the inventories of want to a provider. If the source has changed it by then, it copies the provider.
func (m *Mirror) addHeld(ctx context.Context, id string, want *placement.Provider) error {
	if err := m.addInventories(ctx, id, want); err != nil {
		return err
	}
	now, err := m.source.provider(ctx, id)
	if err != nil || providerWrite(want, now) == nil {
		return err
	}
	return m.CopyProvider(ctx, id, "")
}

// CopyNames makes the custom names of a kind equal. A name that the source does not have stays while a provider of the
// target has it.
func (m *Mirror) CopyNames(ctx context.Context, kind placement.NameKind) error {
	for range readTries {
		have, err := m.target.names(ctx, kind)
		if err != nil {
			return err
		}
		want, err := m.source.names(ctx, kind)
		if err != nil || slices.Equal(have, want) {
			return err
		}
		if err := m.writeNames(ctx, kind, have, want); err != nil {
			return err
		}
		now, err := m.source.names(ctx, kind)
		if err != nil || slices.Equal(want, now) {
			return err
		}
	}
	return fmt.Errorf("custom names: %w", errChanging)
}

func (m *Mirror) writeNames(ctx context.Context, kind placement.NameKind, have, want []string) error {
	for _, name := range without(want, have) {
		if err := m.target.putName(ctx, kind, name); err != nil {
			return err
		}
	}
	for _, name := range without(have, want) {
		err := m.target.deleteName(ctx, kind, name)
		if reason := placement.ReasonOf(err); err != nil && reason != placement.TraitInUse && reason != placement.ClassInUse {
			return err
		}
	}
	return nil
}

// putNames registers the custom names that a provider has.
func (m *Mirror) putNames(ctx context.Context, p *placement.Provider) error {
	for kind, names := range map[placement.NameKind][]string{
		placement.ClassName: slices.Collect(maps.Keys(p.Inventories)), placement.TraitName: p.Traits,
	} {
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return placement.IsStandard(kind, n) })
		if len(names) == 0 {
			continue
		}
		have, err := m.target.names(ctx, kind)
		if err != nil {
			return err
		}
		for _, name := range without(names, have) {
			if err := m.target.putName(ctx, kind, name); err != nil {
				return err
			}
		}
	}
	return nil
}
