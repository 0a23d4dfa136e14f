package placement

import (
	"maps"
	"net/http"
)

const inventoryRules = "placement:resource_providers:inventories:"

var inventoryResources = []resource{
	at("/resource_providers/{uuid}/inventories",
		endpoint{method: http.MethodGet, accepts: true, rule: inventoryRules + "list", serve: onProvider(noProvider+" : "+noProvider, (*call).listInventories)},
		endpoint{method: http.MethodPost, takes: true, rule: inventoryRules + "create", serve: onProvider(noProvider, (*call).createInventory)},
		endpoint{method: http.MethodPut, takes: true, rule: inventoryRules + "update", serve: onProvider(noProvider, (*call).setInventories)},
		endpoint{method: http.MethodDelete, since: 5, older: http.StatusMethodNotAllowed, rule: inventoryRules + "delete", serve: onProvider(noProvider, (*call).deleteInventories)}),
	at("/resource_providers/{uuid}/inventories/{resource_class}",
		endpoint{method: http.MethodGet, accepts: true, rule: inventoryRules + "show", serve: onProvider(noProvider+" : "+noProvider, (*call).showInventory)},
		endpoint{method: http.MethodPut, takes: true, rule: inventoryRules + "update", serve: onProvider(noProvider, (*call).updateInventory)},
		endpoint{method: http.MethodDelete, rule: inventoryRules + "delete", serve: onProvider(noProvider, (*call).deleteInventory)}),
}

// reservedAllSince: from this microversion on, reserved may equal the total.
const reservedAllSince version = 26

// inventoryOf converts a checked body to an inventory.
func inventoryOf(body map[string]any) Inventory {
	i := Inventory{MinUnit: 1, MaxUnit: maxInt, StepSize: 1, AllocationRatio: 1}
	for name, to := range map[string]*int64{
		"total": &i.Total, "reserved": &i.Reserved, "min_unit": &i.MinUnit, "max_unit": &i.MaxUnit, "step_size": &i.StepSize,
	} {
		if v, ok := body[name]; ok {
			*to = integerOf(v)
		}
	}
	if v, ok := body["allocation_ratio"]; ok {
		i.AllocationRatio = numberOf(v)
	}
	return i
}

// shownInventory is an answer about the inventory of one class.
type shownInventory struct {
	Inventory
	Generation int64 `json:"resource_provider_generation"`
}

func showsInventories(list map[string]Inventory, generation int64) map[string]any {
	if list == nil {
		list = map[string]Inventory{}
	}
	return map[string]any{"resource_provider_generation": generation, "inventories": list}
}

// checkCapacity refuses an inventory with less capacity than its microversion permits; prefix begins the text.
func (c *call) checkCapacity(p *Provider, class string, i Inventory, prefix string) error {
	what := ""
	switch {
	case c.version < reservedAllSince && i.capacity() <= 0:
		what = "greater than or equal to total"
	case i.capacity() < 0:
		what = "greater than total"
	default:
		return nil
	}
	return badRequest("%s%s: Invalid inventory for '%s' on resource provider '%s'. The reserved value is %s.", prefix, p.UUID, class, p.UUID, what)
}

// writeInventories replaces a provider's inventories if its generation is still the one read.
func (c *call) writeInventories(p *Provider, list map[string]Inventory, formats map[Reason]refusalFormat) error {
	err := c.Backend.Write(c.ctx, Write{Providers: []ProviderWrite{{UUID: p.UUID, Generation: &p.Generation, Raise: 1, Inventories: &list}}})
	return formatted(err, formats)
}

func (c *call) listInventories(p *Provider) error {
	return c.reply(http.StatusOK, showsInventories(p.Inventories, p.Generation))
}

func (c *call) showInventory(p *Provider) error {
	class := c.vars["resource_class"]
	i, ok := p.Inventories[class]
	if !ok {
		return notFound("No inventory of class %s for %s", class, p.UUID)
	}
	return c.reply(http.StatusOK, shownInventory{i, p.Generation})
}

func (c *call) createInventory(p *Provider) error {
	body, err := c.object(postInventory)
	if err != nil {
		return err
	}
	class, i := body["resource_class"].(string), inventoryOf(body)
	prefix := "Unable to create inventory for resource provider "
	if err := c.checkCapacity(p, class, i, prefix); err != nil {
		return err
	}
	if err := c.checkKnown(ClassName, []string{class}, prefix+p.UUID+": "); err != nil {
		return err
	}
	if _, has := p.Inventories[class]; has {
		return conflict(CodeConcurrentUpdate, "Update conflict: the resource provider has an inventory of class %s", class)
	}
	list := maps.Clone(p.Inventories)
	if list == nil {
		list = map[string]Inventory{}
	}
	list[class] = i
	if err := c.writeInventories(p, list, map[Reason]refusalFormat{
		ProviderGeneration: {http.StatusConflict, CodeConcurrentUpdate, "Update conflict: %s"},
	}); err != nil {
		return err
	}
	c.setLocation("/resource_providers/" + p.UUID + "/inventories/" + class)
	return c.reply(http.StatusCreated, shownInventory{i, p.Generation + 1})
}

func (c *call) setInventories(p *Provider) error {
	body, err := c.object(putInventories)
	if err != nil {
		return err
	}
	if integerOf(body["resource_provider_generation"]) != p.Generation {
		return conflict(CodeConcurrentUpdate, "resource provider generation conflict")
	}
	list, err := c.inventoriesOf(p, body["inventories"].(map[string]any))
	if err != nil {
		return err
	}
	if err := c.writeInventories(p, list, map[Reason]refusalFormat{
		ProviderGeneration: {http.StatusConflict, CodeConcurrentUpdate, "update conflict: %s"},
		InventoryInUse:     {http.StatusConflict, CodeInventoryInUse, "update conflict: %s"},
	}); err != nil {
		return err
	}
	return c.reply(http.StatusOK, showsInventories(list, p.Generation+1))
}

// inventoriesIn converts checked inventories by class. The schema checks only entries whose class is a valid name; other
// classes are unknown.
func inventoriesIn(body map[string]any) map[string]Inventory {
	list := map[string]Inventory{}
	for class, one := range body {
		if fields, ok := one.(map[string]any); ok && className.MatchString(class) {
			list[class] = inventoryOf(fields)
		}
	}
	return list
}

// inventoriesOf reads a provider's new inventories by class.
func (c *call) inventoriesOf(p *Provider, body map[string]any) (map[string]Inventory, error) {
	list := inventoriesIn(body)
	for _, class := range keys(list) {
		if err := c.checkCapacity(p, class, list[class], "Unable to update inventory for resource provider "); err != nil {
			return nil, err
		}
	}
	return list, c.checkKnown(ClassName, keys(body), "Unknown resource class in inventory for resource provider "+p.UUID+": ")
}

func (c *call) updateInventory(p *Provider) error {
	body, err := c.object(putInventory)
	if err != nil {
		return err
	}
	class := c.vars["resource_class"]
	if integerOf(body["resource_provider_generation"]) != p.Generation {
		return conflict(CodeConcurrentUpdate, "resource provider generation conflict")
	}
	i := inventoryOf(body)
	if err := c.checkCapacity(p, class, i, "Unable to update inventory for resource provider "); err != nil {
		return err
	}
	if err := c.mustExist(ClassName, class, ""); err != nil {
		return err
	}
	if _, has := p.Inventories[class]; !has {
		return badRequest("No inventory record with resource class for resource provider %s: No inventory of class %s found.", p.UUID, class)
	}
	list := maps.Clone(p.Inventories)
	list[class] = i
	if err := c.writeInventories(p, list, map[Reason]refusalFormat{
		ProviderGeneration: {http.StatusConflict, CodeConcurrentUpdate, "update conflict: %s"},
	}); err != nil {
		return err
	}
	return c.reply(http.StatusOK, shownInventory{i, p.Generation + 1})
}

func (c *call) deleteInventory(p *Provider) error {
	class := c.vars["resource_class"]
	if err := c.mustExist(ClassName, class, "No inventory of class "+class+" found for delete: "); err != nil {
		return err
	}
	if _, has := p.Inventories[class]; !has {
		return notFound("No inventory of class %[1]s found for delete: No inventory of class %[1]s found for delete", class)
	}
	list := maps.Clone(p.Inventories)
	delete(list, class)
	if err := c.writeInventories(p, list, map[Reason]refusalFormat{
		ProviderGeneration: {http.StatusConflict, CodeConcurrentUpdate, "Unable to delete inventory of class " + class + ": %s"},
		InventoryInUse:     {http.StatusConflict, CodeConcurrentUpdate, "Unable to delete inventory of class " + class + ": %s"},
	}); err != nil {
		return err
	}
	return c.replyEmpty(http.StatusNoContent)
}

func (c *call) deleteInventories(p *Provider) error {
	changed := "Unable to delete inventory for resource provider " + p.UUID +
		" because the inventory was updated by another process. Please retry your request.%.0s"
	if err := c.writeInventories(p, map[string]Inventory{}, map[Reason]refusalFormat{
		ProviderGeneration: {http.StatusConflict, CodeConcurrentUpdate, changed},
		InventoryInUse:     {http.StatusConflict, CodeInventoryInUse, "%s"},
	}); err != nil {
		return err
	}
	return c.replyEmpty(http.StatusNoContent)
}
