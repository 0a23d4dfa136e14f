package placement

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

const allocationRules = "placement:allocations:"

var allocationResources = []resource{
	at("/resource_providers/{uuid}/allocations",
		endpoint{method: http.MethodGet, accepts: true, rule: "placement:resource_providers:allocations:list", serve: onProvider("Resource provider '%[1]s' not found: "+noProvider, (*call).listProviderAllocations)}),
	at("/allocations",
		endpoint{method: http.MethodPost, since: 13, takes: true, rule: allocationRules + "manage", serve: (*call).setSeveralAllocations}),
	at("/allocations/{consumer_uuid}",
		endpoint{method: http.MethodGet, accepts: true, rule: allocationRules + "list", serve: (*call).listAllocations},
		endpoint{method: http.MethodPut, takes: true, rule: allocationRules + "update", serve: (*call).setAllocations},
		endpoint{method: http.MethodDelete, rule: allocationRules + "delete", serve: (*call).deleteAllocations}),
}

const (
	allocationsByProviderSince version = 12
	consumerGenerationSince    version = 28
	// nobody is the project and the user of consumers that were written before 1.8: Placement's
	// incomplete_consumer_project_id.
	nobody = "00000000-0000-0000-0000-000000000000"
)

// consumer reads a consumer; nil when it holds nothing.
func (c *call) consumer(id string) (*Consumer, error) {
	canonical, ok := CanonicalUUID(id)
	if !ok {
		return nil, nil
	}
	list, err := c.Backend.Consumers(c.ctx, ConsumerQuery{UUIDs: []string{canonical}, Cell: c.cell})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

func (c *call) listAllocations() error {
	held, err := c.consumer(c.vars["consumer_uuid"])
	if err != nil {
		return err
	}
	allocations := map[string]any{}
	out := map[string]any{"allocations": allocations}
	if held == nil {
		return c.reply(http.StatusOK, out)
	}
	providers, err := c.Backend.Providers(c.ctx, ProviderQuery{UUIDs: keys(held.Allocations)})
	if err != nil {
		return err
	}
	for _, p := range providers {
		allocations[p.UUID] = map[string]any{"resources": held.Allocations[p.UUID], "generation": p.Generation}
	}
	if c.version >= allocationsByProviderSince {
		out["project_id"], out["user_id"] = held.ProjectID, held.UserID
	}
	if c.version >= consumerGenerationSince {
		out["consumer_generation"] = held.Generation
	}
	if c.version >= consumerTypesSince {
		out["consumer_type"] = held.Type
	}
	return c.reply(http.StatusOK, out)
}

func (c *call) listProviderAllocations(p *Provider) error {
	consumers, err := c.Backend.Consumers(c.ctx, ConsumerQuery{Provider: p.UUID, Cell: c.cell})
	if err != nil {
		return err
	}
	allocations := map[string]any{}
	for _, held := range consumers {
		one := map[string]any{"resources": held.Allocations[p.UUID]}
		if c.version >= consumerGenerationSince {
			one["consumer_generation"] = held.Generation
		}
		allocations[held.UUID] = one
	}
	return c.reply(http.StatusOK, map[string]any{"allocations": allocations, "resource_provider_generation": p.Generation})
}

// consumerWriteOf converts a checked body into the write of a consumer.
func (c *call) consumerWriteOf(id string, body map[string]any) ConsumerWrite {
	w := ConsumerWrite{UUID: id, ProjectID: nobody, UserID: nobody, Allocations: Allocations{}, AnyGeneration: c.version < consumerGenerationSince}
	if project, ok := body["project_id"].(string); ok {
		w.ProjectID, w.UserID = project, body["user_id"].(string)
	}
	if generation := body["consumer_generation"]; generation != nil {
		n := integerOf(generation)
		w.Generation = &n
	}
	if kind, ok := body["consumer_type"].(string); ok {
		w.Type = kind
	}
	give := func(provider string, resources any) {
		if canonical, ok := CanonicalUUID(provider); ok {
			provider = canonical
		}
		w.Allocations[provider] = map[string]int64{}
		for class, n := range resources.(map[string]any) {
			w.Allocations[provider][class] = integerOf(n)
		}
	}
	switch list := body["allocations"].(type) {
	case []any: // before 1.12
		for _, item := range list {
			one := item.(map[string]any)
			give(one["resource_provider"].(map[string]any)["uuid"].(string), one["resources"])
		}
	case map[string]any:
		for provider, one := range list {
			give(provider, one.(map[string]any)["resources"])
		}
	}
	return w
}

func (c *call) setAllocations() error {
	id, ok := CanonicalUUID(c.vars["consumer_uuid"])
	if !ok {
		return badRequest("Malformed consumer_uuid: %s", c.vars["consumer_uuid"])
	}
	body, err := c.object(putAllocations.at(c.version))
	if err != nil {
		return err
	}
	w := Write{Consumers: []ConsumerWrite{c.consumerWriteOf(id, body)}}
	if err := c.writeAllocations(w, "Unable to allocate inventory for consumer "+id+": "); err != nil {
		return err
	}
	return c.replyEmpty(http.StatusNoContent)
}

func (c *call) setSeveralAllocations() error {
	body, err := c.object(postAllocations.at(c.version))
	if err != nil {
		return err
	}
	consumers, err := c.consumerWritesOf(body)
	if err != nil {
		return err
	}
	if err := c.writeAllocations(Write{Consumers: consumers}, "Unable to allocate inventory "); err != nil {
		return err
	}
	return c.replyEmpty(http.StatusNoContent)
}

func (c *call) consumerWritesOf(body map[string]any) ([]ConsumerWrite, error) {
	var out []ConsumerWrite
	seen := map[string]bool{}
	for _, name := range keys(body) {
		id, ok := CanonicalUUID(name)
		if !ok || seen[id] {
			return nil, badRequest("Malformed consumer_uuid: %s", name)
		}
		seen[id] = true
		out = append(out, c.consumerWriteOf(id, body[name].(map[string]any)))
	}
	return out, nil
}

// noneToAllocate is the text about an unknown provider in a write of allocations.
const noneToAllocate = "Allocation for resource provider '%s' that does not exist."

// writeAllocations writes, and answers a refusal as Placement does; missing begins the text about an unknown class.
func (c *call) writeAllocations(w Write, missing string) error {
	w.Cell = c.cell
	err := c.checkClasses(w.Consumers, missing)
	if err == nil {
		err = c.Backend.Write(c.ctx, w)
	}
	var r *Refusal
	if !errors.As(err, &r) {
		return err
	}
	switch r.Reason {
	case ConsumerGeneration:
		if c.cfg.AcceptRepeats && len(w.Providers) == 0 {
			if same, err := c.holdAlready(w.Consumers); same || err != nil {
				return err
			}
		}
		return c.explainConsumer(w.Consumers, r)
	case ProviderNotFound:
		return badRequest(noneToAllocate, r.Provider)
	}
	const refused = "Unable to allocate inventory: %s"
	return refusedAs(r, map[Reason]refusalFormat{
		InventoryMissing:   {http.StatusConflict, "", refused},
		InventoryRefused:   {http.StatusConflict, "", refused},
		CapacityExceeded:   {http.StatusConflict, "", refused},
		InventoryInUse:     {http.StatusConflict, CodeInventoryInUse, "update conflict: %s"}, // of a reshape
		ProviderGeneration: {http.StatusConflict, CodeConcurrentUpdate, "Inventory and/or allocations changed while attempting to allocate: %s"},
	})
}

// checkClasses refuses an unknown class. As in Placement, which looks up classes last, conflicts and unknown
// providers are reported before it.
func (c *call) checkClasses(consumers []ConsumerWrite, missing string) error {
	unknown, err := "", error(nil)
	for _, w := range consumers {
		for _, resources := range w.Allocations {
			if unknown, err = c.firstUnknown(ClassName, keys(resources)); err != nil {
				return err
			}
			if unknown != "" {
				return c.explainClass(consumers, missing, unknown)
			}
		}
	}
	return nil
}

func (c *call) explainClass(consumers []ConsumerWrite, missing, class string) error {
	var wanted []string
	for _, w := range consumers {
		held, err := c.consumer(w.UUID)
		if err != nil {
			return err
		}
		if e := consumerConflict(w, held); e != nil {
			return e
		}
		wanted = append(wanted, keys(w.Allocations)...)
	}
	for _, id := range wanted {
		if p, err := c.findProvider(id); err != nil {
			return err
		} else if p == nil {
			return badRequest(noneToAllocate, id)
		}
	}
	return badRequest("%s%s", missing, unknownName(ClassName, class))
}

// explainConsumer gives the error of a write with a wrong consumer generation; it names the right one.
func (c *call) explainConsumer(consumers []ConsumerWrite, r *Refusal) error {
	for _, w := range consumers {
		if w.UUID != r.Consumer {
			continue
		}
		held, err := c.consumer(w.UUID)
		if err != nil {
			return err
		}
		if e := consumerConflict(w, held); e != nil {
			return e
		}
	}
	return conflict(CodeConcurrentUpdate, "Inventory and/or allocations changed while attempting to allocate: %s", r.text())
}

// holdAlready reports whether the consumers are already as a write would leave them, apart from their generations.
func (c *call) holdAlready(consumers []ConsumerWrite) (bool, error) {
	for _, w := range consumers {
		held, err := c.consumer(w.UUID)
		if err != nil {
			return false, err
		}
		if held == nil {
			held = &Consumer{ProjectID: w.ProjectID, UserID: w.UserID, Type: w.Type}
		}
		if w.ProjectID != held.ProjectID || w.UserID != held.UserID || cmp.Or(w.Type, held.Type) != held.Type ||
			!maps.EqualFunc(w.Allocations, held.Allocations, maps.Equal) {
			return false, nil
		}
	}
	return true, nil
}

// consumerConflict gives the error of a write whose generation is not the consumer's; nil if it is.
func consumerConflict(w ConsumerWrite, held *Consumer) error {
	if w.AnyGeneration {
		return nil
	}
	given := "None"
	if w.Generation != nil {
		given = fmt.Sprint(*w.Generation)
	}
	switch {
	case held == nil && w.Generation != nil:
		return conflict(CodeConcurrentUpdate, "consumer generation conflict - expected null but got %s", given)
	case held != nil && (w.Generation == nil || *w.Generation != held.Generation):
		return conflict(CodeConcurrentUpdate, "consumer generation conflict - expected %d but got %s", held.Generation, given)
	}
	return nil
}

func (c *call) deleteAllocations() error {
	name := c.vars["consumer_uuid"]
	none := notFound("No allocations for consumer '%s'", name)
	id, ok := CanonicalUUID(name)
	if !ok {
		return none
	}
	err := c.Backend.Write(c.ctx, Write{Cell: c.cell, Consumers: []ConsumerWrite{{UUID: id, AnyGeneration: true, MustExist: true}}})
	if ReasonOf(err) == ConsumerNotFound {
		return none
	}
	if err != nil {
		return err
	}
	return c.replyEmpty(http.StatusNoContent)
}

// keys lists the keys of a map, sorted.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
