package placement

import (
	"net/http"
	"slices"
)

const (
	aggregateRules                   = "placement:resource_providers:aggregates:"
	aggregatesSince                  = version(1)
	aggregatesHaveGeneration version = 19
)

var aggregateResources = []resource{
	at("/resource_providers/{uuid}/aggregates",
		endpoint{method: http.MethodGet, since: aggregatesSince, accepts: true, rule: aggregateRules + "list", serve: onProvider(noProvider, (*call).listAggregates)},
		endpoint{method: http.MethodPut, since: aggregatesSince, takes: true, rule: aggregateRules + "update", serve: onProvider(noProvider, (*call).setAggregates)}),
}

func (c *call) replyAggregates(list []string, generation int64) error {
	if list == nil {
		list = []string{}
	}
	out := map[string]any{"aggregates": list}
	if c.version >= aggregatesHaveGeneration {
		out["resource_provider_generation"] = generation
	}
	return c.reply(http.StatusOK, out)
}

func (c *call) listAggregates(p *Provider) error {
	return c.replyAggregates(p.Aggregates, p.Generation)
}

func (c *call) setAggregates(p *Provider) error {
	v, err := c.body(putAggregates.at(c.version))
	if err != nil {
		return err
	}
	w := ProviderWrite{UUID: p.UUID}
	list, whole := v.([]any)
	if !whole {
		body := v.(map[string]any)
		if integerOf(body["resource_provider_generation"]) != p.Generation {
			return changedGeneration
		}
		list = body["aggregates"].([]any)
		w.Generation, w.Raise = &p.Generation, 1
	}
	given := make([]string, len(list))
	for i, id := range list {
		given[i], _ = CanonicalUUID(id.(string)) // the schema has checked it
	}
	stored := slices.Compact(slices.Sorted(slices.Values(given)))
	w.Aggregates = &stored
	if err := c.Backend.Write(c.ctx, Write{Providers: []ProviderWrite{w}}); err != nil {
		return formatted(err, map[Reason]refusalFormat{ProviderGeneration: {http.StatusConflict, CodeConcurrentUpdate, "Update conflict: %s"}})
	}
	return c.replyAggregates(given, p.Generation+w.Raise)
}
