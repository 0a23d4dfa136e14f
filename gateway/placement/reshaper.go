package placement

import "net/http"

var reshaperResources = []resource{
	at("/reshaper", endpoint{method: http.MethodPost, since: 30, takes: true, rule: "placement:reshaper:reshape", serve: (*call).reshape}),
}

// reshape replaces inventories of several providers and allocations of several consumers at once.
func (c *call) reshape() error {
	body, err := c.object(postReshaper.at(c.version))
	if err != nil {
		return err
	}
	inventories := body["inventories"].(map[string]any)
	var w Write
	for _, id := range keys(inventories) {
		one, err := c.reshapedProvider(id, inventories[id].(map[string]any))
		if err != nil {
			return err
		}
		w.Providers = append(w.Providers, one)
	}
	if w.Consumers, err = c.consumerWritesOf(body["allocations"].(map[string]any)); err != nil {
		return err
	}
	if err := c.writeAllocations(w, "malformed reshaper data: "); err != nil {
		return err
	}
	return c.replyEmpty(http.StatusNoContent)
}

func (c *call) reshapedProvider(id string, body map[string]any) (ProviderWrite, error) {
	p, err := c.findProvider(id)
	if err == nil && p == nil {
		err = badParameter(codeProviderNotFound, "Resource provider %[1]s in inventories not found: "+noProvider, id)
	}
	if err != nil {
		return ProviderWrite{}, err
	}
	if n := integerOf(body["resource_provider_generation"]); n != p.Generation {
		return ProviderWrite{}, conflict(CodeConcurrentUpdate, "resource provider generation conflict for provider %s: actual: %d, given: %d", id, p.Generation, n)
	}
	given := body["inventories"].(map[string]any)
	list := inventoriesIn(given)
	if err := c.checkKnown(ClassName, keys(given), "malformed reshaper data: "); err != nil {
		return ProviderWrite{}, err
	}
	// Placement writes inventories before and after the allocations, but only once if all are removed.
	raise := int64(2)
	if len(list) == 0 {
		raise = 1
	}
	return ProviderWrite{UUID: p.UUID, Generation: &p.Generation, Raise: raise, Inventories: &list}, nil
}
