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
		if statusOf(err) != http.StatusNotFound || err.(*AnswerError).Code == placement.CodeNoCell {
			return err
		}
	}
	return c.do(ctx, http.MethodPost, "/resource_providers", body, made)
}

// agentRefused gives the refusal (AgentTree) in an answer; nil for any other answer.
func agentRefused(err error, uuid string) error {
	if e, ok := err.(*AnswerError); ok && e.Code == placement.CodeAgentTree {
		return &placement.Refusal{Reason: placement.AgentTree, Provider: uuid, Detail: err.Error()}
	}
	return nil
}

// createRefused turns the error of a create or update of a provider into the refusal that it is.
func createRefused(err error, w *placement.ProviderWrite, parent any) error {
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

func (c *Client) deleteProvider(ctx context.Context, uuid, path string) error {
	err := c.do(ctx, http.MethodDelete, path, nil, nil)
	switch {
	case statusOf(err) == http.StatusNotFound:
		return nil
	case statusOf(err) != http.StatusConflict:
		return err
	}
	if refused := agentRefused(err, uuid); refused != nil {
		return refused
	}
	why := placement.ProviderHasAllocations
	if e := err.(*AnswerError); e.Code == placement.CodeCannotDeleteParent {
		why = placement.ProviderHasChildren
	}
	return &placement.Refusal{Reason: why, Provider: uuid, Detail: err.Error()}
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
	if e := err.(*AnswerError); e.Code == placement.CodeInventoryInUse {
		why = placement.InventoryInUse
	}
	return &placement.Refusal{Reason: why, Provider: uuid, Detail: err.Error()}
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
	switch {
	case statusOf(err) == http.StatusConflict && err.(*AnswerError).Code == placement.CodeConcurrentUpdate:
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
