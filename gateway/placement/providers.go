package placement

import (
	"errors"
	"net/http"

	"github.com/google/uuid"
)

var providerResources = []resource{
	at("/resource_providers",
		endpoint{method: http.MethodGet, accepts: true, rule: "placement:resource_providers:list", serve: (*call).listProviders},
		endpoint{method: http.MethodPost, takes: true, rule: "placement:resource_providers:create", serve: (*call).createProvider}),
	at("/resource_providers/{uuid}",
		endpoint{method: http.MethodGet, accepts: true, rule: "placement:resource_providers:show", serve: onProvider(noProvider, (*call).showProvider)},
		endpoint{method: http.MethodDelete, rule: "placement:resource_providers:delete", serve: onProvider(noProvider+" for delete", (*call).deleteProvider)},
		endpoint{method: http.MethodPut, takes: true, rule: "placement:resource_providers:update", serve: onProvider(noProvider, (*call).updateProvider)}),
}

const (
	treesSince    version = 14
	reparentSince version = 37
	// providerBodySince: POST /resource_providers answers with the provider.
	providerBodySince version = 20
)

// noProvider is the text about an unknown uuid.
const noProvider = "No resource provider with uuid %[1]s found"

// findProvider reads the provider of a uuid from the path or a body; nil if there is none.
func (c *call) findProvider(name string) (*Provider, error) {
	canonical, ok := CanonicalUUID(name)
	if !ok || len(name) != len(canonical) {
		return nil, nil
	}
	list, err := c.Backend.Providers(c.ctx, ProviderQuery{UUIDs: []string{canonical}, Cell: c.cell})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// provider is findProvider with a 404 if there is none; missing is the format of its text for the uuid.
func (c *call) provider(name, missing string) (*Provider, error) {
	p, err := c.findProvider(name)
	if err == nil && p == nil {
		return nil, notFound(missing, name)
	}
	return p, err
}

// onProvider serves a request with the provider in its path; missing is as for provider.
func onProvider(missing string, serve func(*call, *Provider) error) func(*call) error {
	return func(c *call) error {
		p, err := c.provider(c.vars["uuid"], missing)
		if err != nil {
			return err
		}
		return serve(c, p)
	}
}

type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

func (c *call) showsProvider(p *Provider) map[string]any {
	url := c.prefix + "/resource_providers/" + p.UUID
	links := []link{{"self", url}}
	for _, l := range []struct {
		rel   string
		since version
	}{{"inventories", 0}, {"usages", 0}, {"aggregates", 1}, {"traits", 6}, {"allocations", 11}} {
		if c.version >= l.since {
			links = append(links, link{l.rel, url + "/" + l.rel})
		}
	}
	out := map[string]any{"uuid": p.UUID, "name": p.Name, "generation": p.Generation, "links": links}
	if c.version >= treesSince {
		out["parent_provider_uuid"], out["root_provider_uuid"] = orNull(p.ParentUUID), p.RootUUID
	}
	return out
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (c *call) showProvider(p *Provider) error {
	return c.reply(http.StatusOK, c.showsProvider(p))
}

func (c *call) listProviders() error {
	if err := c.query.check(listProviders.at(c.version)); err != nil {
		return err
	}
	q, err := c.providerQuery()
	if err != nil {
		return err
	}
	list, err := c.Backend.Providers(c.ctx, q)
	if err != nil {
		return err
	}
	out := make([]any, len(list))
	for i, p := range list {
		out[i] = c.showsProvider(p)
	}
	return c.reply(http.StatusOK, map[string]any{"resource_providers": out})
}

func (c *call) providerQuery() (ProviderQuery, error) {
	q := ProviderQuery{Name: c.query.last("name"), Cell: c.cell}
	var err error
	if q.Aggregates, err = c.memberOf(""); err != nil {
		return q, err
	}
	if q.Traits, err = c.traits(""); err != nil {
		return q, err
	}
	if id := c.query.last("uuid"); id != "" {
		canonical, _ := CanonicalUUID(id) // the schema has checked it
		q.UUIDs = []string{canonical}
	}
	if id := c.query.last("in_tree"); id != "" {
		q.InTree, _ = CanonicalUUID(id)
	}
	if c.query.has("resources") {
		if q.Resources, err = parseResources(c.query.last("resources")); err != nil {
			return q, err
		}
	}
	if err := c.checkKnown(TraitName, namesIn(q.Traits), `Invalid trait(s) in "required" parameter: `); err != nil {
		return q, err
	}
	return q, c.checkKnown(ClassName, keys(q.Resources), "Invalid resource class in resources parameter: ")
}

// parentOf reads parent_provider_uuid; named is false when the body does not have it.
func parentOf(body map[string]any) (parent string, named bool) {
	value, named := body["parent_provider_uuid"]
	if s, ok := value.(string); ok {
		parent, _ = CanonicalUUID(s) // the schema has checked it
	}
	return parent, named
}

func (c *call) createProvider() error {
	body, err := c.object(postProvider.at(c.version))
	if err != nil {
		return err
	}
	name := body["name"].(string)
	id := uuid.NewString()
	if given, ok := body["uuid"].(string); ok {
		id, _ = CanonicalUUID(given)
	}
	parent, _ := parentOf(body)
	refuse := func(reason string) error {
		return badRequest(`Unable to create resource provider "%s", %s: Object action create failed because: %s`, name, id, reason)
	}
	switch {
	case name == "":
		return refuse("name is required")
	case parent == id:
		return refuse("parent provider UUID cannot be same as UUID. Please set parent provider UUID to None if there is no parent.")
	}
	err = c.Backend.Write(c.ctx, Write{Providers: []ProviderWrite{{UUID: id, Cell: c.cell, Create: true, Name: &name, Parent: &parent}}})
	var r *Refusal
	switch {
	case errors.As(err, &r) && r.Reason == DuplicateProvider:
		if r.Provider != "" {
			return conflict(codeDuplicateName, "Conflicting resource provider uuid: %s already exists.", id)
		}
		return conflict(codeDuplicateName, "Conflicting resource provider name: %s already exists.", name)
	case errors.As(err, &r) && r.Reason == ParentNotFound:
		return refuse("parent provider UUID does not exist.")
	case err != nil:
		return err
	}
	c.setLocation("/resource_providers/" + id)
	if c.version < providerBodySince {
		return c.replyEmpty(http.StatusCreated)
	}
	p, err := c.provider(id, noProvider)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, c.showsProvider(p))
}

func (c *call) deleteProvider(p *Provider) error {
	id := c.vars["uuid"]
	err := c.Backend.Write(c.ctx, Write{Providers: []ProviderWrite{{UUID: p.UUID, Delete: true}}})
	if err != nil {
		return formatted(err, map[Reason]refusalFormat{
			ProviderNotFound:       {http.StatusNotFound, "", "%s for delete"},
			ProviderHasAllocations: {http.StatusConflict, codeProviderInUse, "Unable to delete resource provider " + id + ": %s"},
			ProviderHasChildren:    {http.StatusConflict, CodeCannotDeleteParent, "Unable to delete parent resource provider " + id + ": %s"},
		})
	}
	return c.replyEmpty(http.StatusNoContent)
}

func (c *call) updateProvider(p *Provider) error {
	body, err := c.object(putProvider.at(c.version))
	if err != nil {
		return err
	}
	name := body["name"].(string)
	w := ProviderWrite{UUID: p.UUID, Name: &name}
	if parent, named := parentOf(body); named && parent != p.ParentUUID {
		if err := c.checkReparent(p, parent); err != nil {
			return err
		}
		w.Parent = &parent
	}
	if err := c.Backend.Write(c.ctx, Write{Providers: []ProviderWrite{w}}); err != nil {
		if ReasonOf(err) == DuplicateProvider {
			return conflict(codeDuplicateName, "Conflicting resource provider %s already exists.", name)
		}
		prefix := "Unable to save resource provider " + p.UUID + ": "
		return formatted(err, map[Reason]refusalFormat{
			ParentNotFound:  {http.StatusBadRequest, "", prefix + "%s"},
			ReparentRefused: {http.StatusBadRequest, "", prefix + "%s"},
		})
	}
	if p, err = c.provider(p.UUID, noProvider); err != nil {
		return err
	}
	return c.reply(http.StatusOK, c.showsProvider(p))
}

// checkReparent refuses a parent with Placement's texts; the backend checks again in its transaction.
func (c *call) checkReparent(p *Provider, parent string) error {
	refuse := func(action, reason string) error {
		return badRequest("Unable to save resource provider %s: Object action %s failed because: %s", p.UUID, action, reason)
	}
	if parent == "" {
		if c.version < reparentSince {
			return refuse("update", "un-parenting a provider is not currently allowed.")
		}
		return nil
	}
	tree, err := c.Backend.Providers(c.ctx, ProviderQuery{InTree: parent})
	if err != nil {
		return err
	}
	if len(tree) == 0 {
		return refuse("create", "parent provider UUID does not exist.")
	}
	if p.ParentUUID != "" && c.version < reparentSince {
		return refuse("update", "re-parenting a provider is not currently allowed.")
	}
	parents := map[string]string{}
	for _, other := range tree {
		parents[other.UUID] = other.ParentUUID
	}
	for up := parent; up != ""; up = parents[up] {
		if up == p.UUID {
			return refuse("update", "creating loop in the provider tree is not allowed.")
		}
	}
	return nil
}
