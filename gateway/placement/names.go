package placement

import (
	"net/http"
	"slices"
	"strings"

	"cellgate/internal/osnames"
)

// customPrefix begins the names that callers may create.
const customPrefix = osnames.CustomPrefix

// isKnown reports whether a name is registered.
func (c *call) isKnown(kind NameKind, name string) (bool, error) {
	if IsStandard(kind, name) {
		return true, nil
	}
	if !strings.HasPrefix(name, customPrefix) {
		return false, nil
	}
	return c.Backend.HasName(c.ctx, kind, name)
}

// firstUnknown gives the first of names that is not registered, or "".
func (c *call) firstUnknown(kind NameKind, names []string) (string, error) {
	for _, name := range names {
		known, err := c.isKnown(kind, name)
		if err != nil || !known {
			return name, err
		}
	}
	return "", nil
}

func unknownName(kind NameKind, name string) string {
	if kind == ClassName {
		return "No such resource class " + name + "."
	}
	return "No such trait(s): " + name + "."
}

// checkKnown refuses (400) the first of names that is not registered; prefix begins the text.
func (c *call) checkKnown(kind NameKind, names []string, prefix string) error {
	unknown, err := c.firstUnknown(kind, names)
	if err != nil || unknown == "" {
		return err
	}
	return badRequest("%s%s", prefix, unknownName(kind, unknown))
}

// mustExist refuses (404) a name that is not registered; prefix begins the text.
func (c *call) mustExist(kind NameKind, name, prefix string) error {
	known, err := c.isKnown(kind, name)
	if err != nil || known {
		return err
	}
	return notFound("%s%s", prefix, unknownName(kind, name))
}

// IsStandard reports whether every deployment has a name.
func IsStandard(kind NameKind, name string) bool {
	if kind == ClassName {
		return osnames.IsClass(name)
	}
	return osnames.IsTrait(name)
}

// allNames lists standard and custom names, sorted.
func (c *call) allNames(kind NameKind) ([]string, error) {
	custom, err := c.Backend.Names(c.ctx, kind)
	if err != nil {
		return nil, err
	}
	all := osnames.Traits()
	if kind == ClassName {
		all = osnames.Classes()
	}
	all = append(all, custom...)
	slices.Sort(all)
	return all, nil
}

// putName registers a name whose text was checked: 201 if it is new, else 204.
func (c *call) putName(kind NameKind, location string) error {
	created, err := c.Backend.PutName(c.ctx, kind, c.vars["name"])
	if err != nil {
		return err
	}
	c.setLocation(location + c.vars["name"])
	if kind == TraitName {
		c.markFresh()
	}
	if created {
		return c.replyEmpty(http.StatusCreated)
	}
	return c.replyEmpty(http.StatusNoContent)
}
