package mirror

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"cellgate/gateway/placement"
)

// One write of a provider is several requests, which a repeated copy completes. A refusal is a *placement.Refusal,
// unless it is final: allocations above a capacity, for example.

func namePath(kind placement.NameKind, name string) string {
	if kind == placement.TraitName {
		return "/traits/" + name
	}
	return "/resource_classes/" + name
}

func (c *Client) putName(ctx context.Context, kind placement.NameKind, name string) error {
	return c.do(ctx, http.MethodPut, namePath(kind, name), nil, nil)
}

// deleteName deletes a name; it is refused while a provider has the name.
func (c *Client) deleteName(ctx context.Context, kind placement.NameKind, name string) error {
	err := c.do(ctx, http.MethodDelete, namePath(kind, name), nil, nil)
	switch statusOf(err) {
	case http.StatusConflict:
		why := placement.TraitInUse
		if kind == placement.ClassName {
			why = placement.ClassInUse
		}
		return &placement.Refusal{Reason: why, Name: name, Detail: err.Error()}
	case http.StatusNotFound:
		return nil
	}
	return err
}

// writeProvider creates, changes or deletes a provider. A new root goes to cell unless that is empty.
func (c *Client) writeProvider(ctx context.Context, w *placement.ProviderWrite, cell string) error {
	path := "/resource_providers/" + w.UUID
	if w.Delete {
		return c.deleteProvider(ctx, w.UUID, path)
	}
	parent := any(nil)
	if w.Parent != nil && *w.Parent != "" {
		parent = *w.Parent
	}
	var made provider
	switch {
	case w.Create:
		body := map[string]any{"uuid": w.UUID, "name": *w.Name, "parent_provider_uuid": parent}
		if parent != nil {
			cell = ""
		}
		if err := c.createProvider(ctx, cell, body, &made); err != nil {
			return createRefused(err, w, parent)
		}
	case w.Name != nil || w.Parent != nil:
		listed, err := c.providers(ctx, "?uuid="+w.UUID)
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
		if err := c.do(ctx, http.MethodPut, path, body, &made); err != nil {
			return createRefused(err, w, parent)
		}
	default:
		made.Generation = *w.Generation
	}
	return c.writeContents(ctx, w, path, made.Generation)
}

// createProvider makes a provider; a root goes to cell unless that is empty. OpenStack's own Placement has no cells, so
// a 404 for the cell's path falls back to the plain one.
func (c *Client) createProvider(ctx context.Context, cell string, body map[string]any, made *provider) error {
	if cell != "" {
		base, _, _ := strings.Cut(c.base, placement.CellsPath)
		of := *c
		of.base = base + placement.CellsPath + url.PathEscape(cell)
		err := of.do(ctx, http.MethodPost, "/resource_providers", body, made)
		if statusOf(err) != http.StatusNotFound || codeOf(err) == placement.CodeNoCell {
			return err
		}
	}
	return c.do(ctx, http.MethodPost, "/resource_providers", body, made)
}

// refused gives an answer as a refusal to write a provider: AgentTree if the answer says so, else for the reason.
func refused(err error, uuid string, reason placement.Reason) error {
	if codeOf(err) == placement.CodeAgentTree {
		reason = placement.AgentTree
	}
	return &placement.Refusal{Reason: reason, Provider: uuid, Detail: err.Error()}
}

// createRefused turns the error of a create or update of a provider into the refusal that it is.
func createRefused(err error, w *placement.ProviderWrite, parent any) error {
	switch {
	case codeOf(err) == placement.CodeAgentTree, statusOf(err) == http.StatusConflict && w.Name != nil:
		return refused(err, w.UUID, placement.DuplicateProvider)
	case statusOf(err) == http.StatusBadRequest && parent != nil:
		return refused(err, w.UUID, placement.ParentNotFound)
	}
	return err
}

func (c *Client) deleteProvider(ctx context.Context, uuid, path string) error {
	err := c.do(ctx, http.MethodDelete, path, nil, nil)
	switch {
	case statusOf(err) == http.StatusNotFound:
		return nil
	case statusOf(err) != http.StatusConflict:
		return err
	case codeOf(err) == placement.CodeCannotDeleteParent:
		return refused(err, uuid, placement.ProviderHasChildren)
	}
	return refused(err, uuid, placement.ProviderHasAllocations)
}

// writeContents replaces the given traits, aggregates and inventories, each with the generation that the write before
// left.
func (c *Client) writeContents(ctx context.Context, w *placement.ProviderWrite, path string, generation int64) error {
	var answer struct {
		Generation int64 `json:"resource_provider_generation"`
	}
	put := func(what string, of any) error {
		err := c.do(ctx, http.MethodPut, path+"/"+what, map[string]any{"resource_provider_generation": generation, what: of}, &answer)
		generation = answer.Generation
		return contentsRefused(err, w.UUID)
	}
	if w.Traits != nil {
		if err := put("traits", *w.Traits); err != nil {
			return err
		}
	}
	if w.Aggregates != nil {
		if err := put("aggregates", *w.Aggregates); err != nil {
			return err
		}
	}
	if w.Inventories != nil {
		return put("inventories", *w.Inventories)
	}
	return nil
}

func contentsRefused(err error, uuid string) error {
	switch {
	case statusOf(err) == http.StatusNotFound:
		return refused(err, uuid, placement.ProviderNotFound)
	case statusOf(err) != http.StatusConflict:
		return err
	case codeOf(err) == placement.CodeInventoryInUse:
		return refused(err, uuid, placement.InventoryInUse)
	}
	return refused(err, uuid, placement.ProviderGeneration)
}

// typeOfUnknown is written for consumers of the unknown type, which Placement does not accept in a write.
const typeOfUnknown = "INSTANCE"

// writeConsumer writes what a consumer holds; a consumer without allocations is deleted.
func (c *Client) writeConsumer(ctx context.Context, w *placement.ConsumerWrite) error {
	path := "/allocations/" + w.UUID
	if len(w.Allocations) == 0 {
		err := c.do(ctx, http.MethodDelete, path, nil, nil)
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
	if c.hasTypes {
		body["consumer_type"] = w.Type
		if w.Type == placement.UnknownType {
			body["consumer_type"] = typeOfUnknown
		}
	}
	err := c.do(ctx, http.MethodPut, path, body, nil)
	if err == nil {
		return nil
	}
	refusal := &placement.Refusal{Consumer: w.UUID, Detail: err.Error()}
	switch {
	case statusOf(err) == http.StatusConflict && codeOf(err) == placement.CodeConcurrentUpdate:
		refusal.Reason = placement.ConsumerGeneration
	case statusOf(err) == http.StatusBadRequest:
		refusal.Reason = placement.ProviderNotFound
	case statusOf(err) == http.StatusConflict && strings.Contains(err.Error(), "Inventory for"): // Placement has no code for it
		refusal.Reason = placement.InventoryMissing
	default:
		return fmt.Errorf("consumer %s: %w", w.UUID, err)
	}
	return refusal
}
