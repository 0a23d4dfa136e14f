package placement

import (
	"net/http"
	"slices"
	"strings"
)

const (
	traitRules         = "placement:traits:"
	providerTraitRules = "placement:resource_providers:traits:"
	traitsSince        = version(6)
)

var traitResources = []resource{
	at("/traits", endpoint{method: http.MethodGet, since: traitsSince, accepts: true, rule: traitRules + "list", serve: (*call).listTraits}),
	at("/traits/{name}",
		endpoint{method: http.MethodGet, since: traitsSince, rule: traitRules + "show", serve: (*call).showTrait},
		endpoint{method: http.MethodPut, since: traitsSince, rule: traitRules + "update", serve: (*call).putTrait},
		endpoint{method: http.MethodDelete, since: traitsSince, rule: traitRules + "delete", serve: (*call).deleteTrait}),
	at("/resource_providers/{uuid}/traits",
		endpoint{method: http.MethodGet, since: traitsSince, accepts: true, rule: providerTraitRules + "list", serve: onProvider(noProvider+": "+noProvider, (*call).listProviderTraits)},
		endpoint{method: http.MethodPut, since: traitsSince, takes: true, rule: providerTraitRules + "update", serve: (*call).setProviderTraits},
		endpoint{method: http.MethodDelete, since: traitsSince, rule: providerTraitRules + "delete", serve: onProvider(noProvider, (*call).deleteProviderTraits)}),
}

func (c *call) listTraits() error {
	if err := c.query.check(listTraits); err != nil {
		return err
	}
	keep := func(string) bool { return true }
	if c.query.has("name") {
		value := c.query.last("name")
		op, operand, ok := strings.Cut(value, ":")
		if !ok {
			return badRequest(`Badly formatted name parameter. Expected name query string parameter in form: ?name=[in|startswith]:[name1,name2|prefix]. Got: "%s"`, value)
		}
		switch op {
		case "in":
			list := strings.Split(operand, ",")
			keep = func(name string) bool { return slices.Contains(list, name) }
		case "startswith":
			keep = func(name string) bool { return strings.HasPrefix(name, operand) }
		}
	}
	names, err := c.allNames(TraitName)
	if err != nil {
		return err
	}
	if c.query.has("associated") {
		value := strings.ToLower(c.query.last("associated"))
		if value != "true" && value != "false" {
			return badRequest(`The query parameter "associated" only accepts "true" or "false"`)
		}
		used, err := c.usedTraits()
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return used[name] != (value == "true") })
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !keep(name) })
	return c.reply(http.StatusOK, map[string]any{"traits": names})
}

// usedTraits gives the traits that some provider has.
func (c *call) usedTraits() (map[string]bool, error) {
	all, err := c.Backend.Providers(c.ctx, ProviderQuery{})
	used := map[string]bool{}
	for _, p := range all {
		for _, t := range p.Traits {
			used[t] = true
		}
	}
	return used, err
}

func (c *call) showTrait() error {
	name := c.vars["name"]
	if err := c.mustExist(TraitName, name, ""); err != nil {
		return err
	}
	c.markFresh()
	return c.replyEmpty(http.StatusNoContent)
}

func (c *call) putTrait() error {
	if customTrait.check(c.vars["name"]) != nil {
		return badRequest(`The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"`)
	}
	return c.putName(TraitName, "/traits/")
}

func (c *call) deleteTrait() error {
	name := c.vars["name"]
	if IsStandard(TraitName, name) {
		return badRequest("Cannot delete standard trait %s.", name)
	}
	if err := c.Backend.DeleteName(c.ctx, TraitName, name); err != nil {
		return err
	}
	return c.replyEmpty(http.StatusNoContent)
}

func showsTraits(names []string, generation int64) map[string]any {
	if names == nil {
		names = []string{}
	}
	return map[string]any{"traits": names, "resource_provider_generation": generation}
}

func (c *call) listProviderTraits(p *Provider) error {
	return c.reply(http.StatusOK, showsTraits(p.Traits, p.Generation))
}

// changedGeneration is the error of a write of traits or aggregates with a generation that is not the provider's.
var changedGeneration = conflict(CodeConcurrentUpdate, "Resource provider's generation already changed. Please update the generation and try again.")

func (c *call) setProviderTraits() error {
	body, err := c.object(putTraits)
	if err != nil {
		return err
	}
	p, err := c.provider(c.vars["uuid"], noProvider)
	if err != nil {
		return err
	}
	if given := integerOf(body["resource_provider_generation"]); given != p.Generation {
		// This write changes nothing, and is refused: for an agent's tree with AgentTree, whatever the generation.
		err := c.Backend.Write(c.ctx, Write{Providers: []ProviderWrite{{UUID: p.UUID, Generation: &given}}})
		if ReasonOf(err) == AgentTree {
			return err
		}
		return changedGeneration
	}
	var names []string
	for _, name := range body["traits"].([]any) {
		names = append(names, name.(string))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var unknown []string
	for _, name := range names {
		known, err := c.isKnown(TraitName, name)
		if err != nil {
			return err
		}
		if !known {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return badRequest("No such trait %s", strings.Join(unknown, ", "))
	}
	generation, err := c.writeTraits(p, names)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, showsTraits(names, generation))
}

// writeTraits gives the generation after the write; it does not change if the provider already has these traits.
func (c *call) writeTraits(p *Provider, names []string) (int64, error) {
	if slices.Equal(p.Traits, names) {
		return p.Generation, nil
	}
	return p.Generation + 1, c.Backend.Write(c.ctx, Write{Providers: []ProviderWrite{
		{UUID: p.UUID, Generation: &p.Generation, Raise: 1, Traits: &names},
	}})
}

func (c *call) deleteProviderTraits(p *Provider) error {
	if _, err := c.writeTraits(p, nil); err != nil {
		return err
	}
	return c.replyEmpty(http.StatusNoContent)
}
