package placement

import (
	"fmt"
	"net/http"
)

const (
	classRules    = "placement:resource_classes:"
	classesSince  = version(2)
	classPutSince = version(7)
)

var classResources = []resource{
	at("/resource_classes",
		endpoint{method: http.MethodGet, since: classesSince, accepts: true, rule: classRules + "list", serve: (*call).listClasses},
		endpoint{method: http.MethodPost, since: classesSince, takes: true, rule: classRules + "create", serve: (*call).createClass}),
	at("/resource_classes/{name}",
		endpoint{method: http.MethodGet, since: classesSince, accepts: true, rule: classRules + "show", serve: (*call).showClass},
		endpoint{method: http.MethodPut, since: classPutSince, rule: classRules + "update", serve: (*call).putClass},
		endpoint{method: http.MethodPut, since: classesSince, until: classPutSince - 1, takes: true, rule: classRules + "update", serve: (*call).renameClass},
		endpoint{method: http.MethodDelete, since: classesSince, rule: classRules + "delete", serve: (*call).deleteClass}),
}

func (c *call) showsClass(name string) map[string]any {
	return map[string]any{"name": name, "links": []link{{"self", c.prefix + "/resource_classes/" + name}}}
}

func (c *call) listClasses() error {
	names, err := c.allNames(ClassName)
	if err != nil {
		return err
	}
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = c.showsClass(name)
	}
	return c.reply(http.StatusOK, map[string]any{"resource_classes": out})
}

func (c *call) showClass() error {
	name := c.vars["name"]
	if err := c.mustExist(ClassName, name, ""); err != nil {
		return err
	}
	return c.reply(http.StatusOK, c.showsClass(name))
}

func (c *call) createClass() error {
	body, err := c.object(putClass)
	if err != nil {
		return err
	}
	name := body["name"].(string)
	created, err := c.Backend.PutName(c.ctx, ClassName, name)
	if err != nil {
		return err
	}
	if !created {
		return conflict("", "Conflicting resource class already exists: %s", name)
	}
	c.setLocation("/resource_classes/" + name)
	return c.replyEmpty(http.StatusCreated)
}

func (c *call) putClass() error {
	if _, err := checkJSON(fmt.Appendf(nil, `{"name": "%s"}`, c.vars["name"]), putClass); err != nil {
		return err
	}
	return c.putName(ClassName, "/resource_classes/")
}

// renameClass is PUT before 1.7. A class in use cannot be renamed, since inventories and claims store its name.
func (c *call) renameClass() error {
	body, err := c.object(putClass)
	if err != nil {
		return err
	}
	was, name := c.vars["name"], body["name"].(string)
	if err := c.mustExist(ClassName, was, ""); err != nil {
		return err
	}
	if IsStandard(ClassName, was) {
		return badRequest("Cannot update standard resource class %s", was)
	}
	if was != name {
		created, err := c.Backend.PutName(c.ctx, ClassName, name)
		if err != nil {
			return err
		}
		if !created {
			return conflict("", "Resource class already exists: %s", name)
		}
		if err := c.Backend.DeleteName(c.ctx, ClassName, was); err != nil {
			if undo := c.Backend.DeleteName(c.ctx, ClassName, name); undo != nil {
				c.Log.Warn("A resource class could not be renamed and its new name stays.", "class", was, "name", name, "error", undo)
			}
			return err
		}
	}
	return c.reply(http.StatusOK, c.showsClass(name))
}

func (c *call) deleteClass() error {
	name := c.vars["name"]
	if err := c.mustExist(ClassName, name, ""); err != nil {
		return err
	}
	if IsStandard(ClassName, name) {
		return badRequest("Error in delete resource class: Cannot delete standard resource class %s.", name)
	}
	err := c.Backend.DeleteName(c.ctx, ClassName, name)
	if err != nil {
		return formatted(err, map[Reason]refusalFormat{ClassInUse: {http.StatusConflict, "", "Error in delete resource class: %s"}})
	}
	return c.replyEmpty(http.StatusNoContent)
}
