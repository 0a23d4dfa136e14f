package mirror

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"cellgate/gateway/placement"
)

// Remote is a Placement as the target of a mirror, for the way back. Its API can do less than a Backend. One write is
// several requests, which a repeated copy completes. It counts generations itself, and it refuses allocations above
// its capacity.
type Remote struct{ *Client }

// Providers answers the queries that a mirror makes: by one uuid, by Name, by InTree, and for all.
func (r Remote) Providers(ctx context.Context, q placement.ProviderQuery) ([]*placement.Provider, error) {
	if len(q.UUIDs) == 1 {
		p, err := r.provider(ctx, q.UUIDs[0])
		if p == nil || err != nil {
			return nil, err
		}
		return []*placement.Provider{p}, nil
	}
	query := ""
	switch {
	case q.Name != "":
		query = "?name=" + url.QueryEscape(q.Name)
	case q.InTree != "":
		query = "?in_tree=" + url.QueryEscape(q.InTree)
	}
	listed, err := r.providersBy(ctx, query)
	if err != nil {
		return nil, err
	}
	var out []*placement.Provider
	for i := range listed {
		// Generations may have changed since the list, so each provider is read again.
		p, err := r.provider(ctx, listed[i].UUID)
		if err != nil {
			return nil, err
		}
		if p != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// Consumers answers queries by UUIDs or Provider.
func (r Remote) Consumers(ctx context.Context, q placement.ConsumerQuery) ([]*placement.Consumer, error) {
	ids := q.UUIDs
	if q.Provider != "" {
		holders, err := r.holders(ctx, q.Provider)
		if err != nil {
			return nil, err
		}
		ids = slices.Sorted(maps.Keys(holders))
	}
	var out []*placement.Consumer
	for _, id := range ids {
		c, err := r.consumer(ctx, id)
		if err != nil {
			return nil, err
		}
		if c != nil {
			out = append(out, c)
		}
	}
	return out, nil
}

// Names lists the custom names.
func (r Remote) Names(ctx context.Context, kind placement.NameKind) ([]string, error) {
	return r.names(ctx, kind)
}

func namePath(kind placement.NameKind, name string) string {
	if kind == placement.TraitName {
		return "/traits/" + name
	}
	return "/resource_classes/" + name
}

// PutName registers a name; created is always false, since the answer does not say.
func (r Remote) PutName(ctx context.Context, kind placement.NameKind, name string) (bool, error) {
	return false, r.do(ctx, http.MethodPut, namePath(kind, name), nil, nil)
}

// DeleteName deletes a name; it is refused while a provider has the name.
func (r Remote) DeleteName(ctx context.Context, kind placement.NameKind, name string) error {
	err := r.do(ctx, http.MethodDelete, namePath(kind, name), nil, nil)
	switch {
	case statusOf(err) == http.StatusConflict && kind == placement.TraitName:
		return &placement.Refusal{Reason: placement.TraitInUse, Name: name, Detail: err.Error()}
	case statusOf(err) == http.StatusConflict:
		return &placement.Refusal{Reason: placement.ClassInUse, Name: name, Detail: err.Error()}
	case statusOf(err) == http.StatusNotFound:
		return nil
	}
	return err
}

// Write does the writes that a mirror makes: of one provider or one consumer.
func (r Remote) Write(ctx context.Context, w placement.Write) error {
	for i := range w.Providers {
		if err := r.writeProvider(ctx, &w.Providers[i]); err != nil {
			return err
		}
	}
	for i := range w.Consumers {
		if err := r.writeConsumer(ctx, &w.Consumers[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r Remote) writeProvider(ctx context.Context, w *placement.ProviderWrite) error {
	path := "/resource_providers/" + w.UUID
	if w.Delete {
		return r.deleteProvider(ctx, w.UUID, path)
	}
	parent := any(nil)
	if w.Parent != nil && *w.Parent != "" {
		parent = *w.Parent
	}
	var made provider
	switch {
	case w.Create:
		body := map[string]any{"uuid": w.UUID, "name": *w.Name, "parent_provider_uuid": parent}
		if err := r.create(ctx, w.Cell, body, &made); err != nil {
			return r.createRefused(err, w, parent)
		}
	case w.Name != nil || w.Parent != nil:
		listed, err := r.providersBy(ctx, "?uuid="+w.UUID)
		if err != nil {
			return err
		}
		if len(listed) == 0 {
			return &placement.Refusal{Reason: placement.ProviderNotFound, Provider: w.UUID}
		}
		body := map[string]any{"name": listed[0].Name}
		if w.Name != nil {
			body["name"] = *w.Name
		}
		if w.Parent != nil {
			body["parent_provider_uuid"] = parent
		}
		if err := r.do(ctx, http.MethodPut, path, body, &made); err != nil {
			return r.createRefused(err, w, parent)
		}
	default:
		made.Generation = *w.Generation
	}
	return r.writeContents(ctx, w, path, made.Generation)
}

// create makes a provider; a root goes to cell unless that is empty. OpenStack's own Placement has no cells, so a 404
// for the cell's path falls back to the plain one.
func (r Remote) create(ctx context.Context, cell string, body map[string]any, made *provider) error {
	if cell != "" {
		base, _, _ := strings.Cut(r.base, placement.CellsPath)
		of := *r.Client
		of.base = base + placement.CellsPath + url.PathEscape(cell)
		err := of.do(ctx, http.MethodPost, "/resource_providers", body, made)
		if statusOf(err) != http.StatusNotFound || err.(*AnswerError).Code == placement.CodeNoCell {
			return err
		}
	}
	return r.do(ctx, http.MethodPost, "/resource_providers", body, made)
}

// agentRefused gives the refusal (AgentTree) in an answer; nil for any other answer.
func agentRefused(err error, uuid string) error {
	if e, ok := err.(*AnswerError); ok && e.Code == placement.CodeAgentTree {
		return &placement.Refusal{Reason: placement.AgentTree, Provider: uuid, Detail: err.Error()}
	}
	return nil
}

// createRefused turns the error of a create or update of a provider into the refusal that a Backend gives.
func (r Remote) createRefused(err error, w *placement.ProviderWrite, parent any) error {
	if refused := agentRefused(err, w.UUID); refused != nil {
		return refused
	}
	switch {
	case statusOf(err) == http.StatusConflict && w.Name != nil:
		return &placement.Refusal{Reason: placement.DuplicateProvider, Name: *w.Name, Detail: err.Error()}
	case statusOf(err) == http.StatusBadRequest && parent != nil:
		return &placement.Refusal{Reason: placement.ParentNotFound, Provider: w.UUID, Detail: err.Error()}
	}
	return err
}

func (r Remote) deleteProvider(ctx context.Context, uuid, path string) error {
	err := r.do(ctx, http.MethodDelete, path, nil, nil)
	var why placement.Reason
	switch {
	case statusOf(err) == http.StatusNotFound:
		return nil
	case statusOf(err) != http.StatusConflict:
		return err
	}
	if refused := agentRefused(err, uuid); refused != nil {
		return refused
	}
	why = placement.ProviderHasAllocations
	if e := err.(*AnswerError); e.Code == "placement.resource_provider.cannot_delete_parent" {
		why = placement.ProviderHasChildren
	}
	return &placement.Refusal{Reason: why, Provider: uuid, Detail: err.Error()}
}

// writeContents replaces the given traits, aggregates and inventories, each with the generation that the write before
// left.
func (r Remote) writeContents(ctx context.Context, w *placement.ProviderWrite, path string, generation int64) error {
	var answer struct {
		Generation int64 `json:"resource_provider_generation"`
	}
	put := func(what string, of any) error {
		err := r.do(ctx, http.MethodPut, path+"/"+what, map[string]any{"resource_provider_generation": generation, what: of}, &answer)
		generation = answer.Generation
		return contentsRefused(err, w.UUID)
	}
	if w.Traits != nil {
		if err := put("traits", notNil(*w.Traits)); err != nil {
			return err
		}
	}
	if w.Aggregates != nil {
		if err := put("aggregates", notNil(*w.Aggregates)); err != nil {
			return err
		}
	}
	if w.Inventories == nil {
		return nil
	}
	of := map[string]inventory{}
	for class, i := range *w.Inventories {
		of[class] = inventory{i.Total, i.Reserved, i.MinUnit, i.MaxUnit, i.StepSize, i.AllocationRatio}
	}
	return put("inventories", of)
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func contentsRefused(err error, uuid string) error {
	if statusOf(err) != http.StatusConflict {
		if statusOf(err) == http.StatusNotFound {
			return &placement.Refusal{Reason: placement.ProviderNotFound, Provider: uuid, Detail: err.Error()}
		}
		return err
	}
	if refused := agentRefused(err, uuid); refused != nil {
		return refused
	}
	why := placement.ProviderGeneration
	if e := err.(*AnswerError); e.Code == "placement.inventory.inuse" {
		why = placement.InventoryInUse
	}
	return &placement.Refusal{Reason: why, Provider: uuid, Detail: err.Error()}
}

// typeOfUnknown is written for consumers of the unknown type, which Placement does not accept in a write.
const typeOfUnknown = "INSTANCE"

func (r Remote) writeConsumer(ctx context.Context, w *placement.ConsumerWrite) error {
	path := "/allocations/" + w.UUID
	if len(w.Allocations) == 0 {
		err := r.do(ctx, http.MethodDelete, path, nil, nil)
		if statusOf(err) == http.StatusNotFound {
			return nil
		}
		return err
	}
	allocations := map[string]any{}
	for id, resources := range w.Allocations {
		allocations[id] = map[string]any{"resources": resources}
	}
	body := map[string]any{"allocations": allocations, "project_id": w.ProjectID, "user_id": w.UserID, "consumer_generation": w.Generation}
	if r.hasTypes {
		body["consumer_type"] = cmp.Or(w.Type, typeOfUnknown)
	}
	err := r.do(ctx, http.MethodPut, path, body, nil)
	switch {
	case statusOf(err) == http.StatusConflict && err.(*AnswerError).Code == "placement.concurrent_update":
		return &placement.Refusal{Reason: placement.ConsumerGeneration, Consumer: w.UUID, Detail: err.Error()}
	case statusOf(err) == http.StatusBadRequest:
		return &placement.Refusal{Reason: placement.ProviderNotFound, Consumer: w.UUID, Detail: err.Error()}
	case statusOf(err) == http.StatusConflict && strings.Contains(err.Error(), "Inventory for"): // Placement has no code for it
		return &placement.Refusal{Reason: placement.InventoryMissing, Consumer: w.UUID, Detail: err.Error()}
	}
	if err != nil {
		return fmt.Errorf("consumer %s: %w", w.UUID, err)
	}
	return nil
}
