package placement

import (
	"maps"
	"net/http"
)

var usageResources = []resource{
	at("/resource_providers/{uuid}/usages",
		endpoint{method: http.MethodGet, accepts: true, rule: "placement:resource_providers:usages", serve: onProvider(noProvider+": "+noProvider, (*call).listProviderUsages)}),
	at("/usages",
		endpoint{method: http.MethodGet, since: 9, accepts: true, rule: ruleUsages, serve: (*call).listUsages}),
}

const consumerTypesSince version = 38

func (c *call) listProviderUsages(p *Provider) error {
	used := map[string]int64{}
	for class := range p.Inventories {
		used[class] = p.Used[class]
	}
	return c.reply(http.StatusOK, map[string]any{"resource_provider_generation": p.Generation, "usages": used})
}

func (c *call) listUsages() error {
	if err := c.query.check(listUsages.at(c.version)); err != nil {
		return err
	}
	q := UsageQuery{ProjectID: c.query.last("project_id"), UserID: c.query.last("user_id"), Type: c.query.last("consumer_type")}
	if c.version < consumerTypesSince {
		q.Type = AllTypes
	}
	list, err := c.Backend.Usages(c.ctx, q)
	if err != nil {
		return err
	}
	if c.version < consumerTypesSince {
		sum := map[string]int64{}
		for _, u := range list { // at most one
			sum = u.Resources
		}
		return c.reply(http.StatusOK, map[string]any{"usages": sum})
	}
	byType := map[string]any{}
	for _, u := range list {
		out := map[string]int64{"consumer_count": u.Consumers}
		maps.Copy(out, u.Resources)
		byType[u.Type] = out
	}
	return c.reply(http.StatusOK, map[string]any{"usages": byType})
}
