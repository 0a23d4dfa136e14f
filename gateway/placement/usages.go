package placement

import (
	"net/http"
)

var usageResources = []resource{
	at("/resource_providers/{uuid}/usages",
		endpoint{method: http.MethodGet, accepts: true, rule: "placement:resource_providers:usages", serve: (*call).listProviderUsages}),
	at("/usages",
		endpoint{method: http.MethodGet, since: 9, accepts: true, rule: ruleUsages, serve: (*call).listUsages}),
}

const consumerTypesSince version = 38

func (c *call) listProviderUsages() error {
	p, err := c.shownProvider(": ")
	if err != nil {
		return err
	}
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
	byType := map[string]any{}
	var one Usage
	for _, u := range list {
		one = u
		out := map[string]int64{"consumer_count": u.Consumers}
		for class, n := range u.Resources {
			out[class] = n
		}
		byType[u.Type] = out
	}
	if c.version >= consumerTypesSince {
		return c.reply(http.StatusOK, map[string]any{"usages": byType})
	}
	if one.Resources == nil {
		one.Resources = map[string]int64{}
	}
	return c.reply(http.StatusOK, map[string]any{"usages": one.Resources})
}
