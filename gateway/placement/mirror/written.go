package mirror

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"

	"cellgate/gateway/placement"
)

// kind is the kind of an object that a mirror copies.
type kind string

const (
	providerObject kind = "provider"
	consumerObject kind = "consumer"
	namesObject    kind = "names"
)

// object is what one copy makes equal.
type object struct {
	kind  kind
	id    string
	names placement.NameKind
	// cell is the cell of a new root.
	cell string
}

// writtenBy gives the objects that a request wrote: by its path, by the body of a request that writes several, and by
// the Location of a created one.
func writtenBy(method, requestPath string, body []byte, location, cell string) (out []object) {
	parts := strings.Split(strings.Trim(requestPath, "/"), "/")
	provider := func(id string) { out = append(out, object{kind: providerObject, id: canonical(id), cell: cell}) }
	consumers := func(of map[string]json.RawMessage) {
		for id := range of {
			out = append(out, object{kind: consumerObject, id: canonical(id)})
		}
	}
	switch {
	case parts[0] == "resource_providers" && len(parts) == 1 && method == http.MethodPost:
		if location != "" {
			provider(path.Base(location))
			break
		}
		var made struct{ UUID string }
		if json.Unmarshal(body, &made) == nil && made.UUID != "" {
			provider(made.UUID)
		}
	case parts[0] == "resource_providers" && len(parts) > 1:
		provider(parts[1])
	case parts[0] == "allocations" && len(parts) == 2:
		consumers(map[string]json.RawMessage{parts[1]: nil})
	case parts[0] == "allocations":
		var several map[string]json.RawMessage
		if json.Unmarshal(body, &several) == nil {
			consumers(several)
		}
	case parts[0] == "reshaper":
		var reshape struct {
			Inventories map[string]json.RawMessage `json:"inventories"`
			Allocations map[string]json.RawMessage `json:"allocations"`
		}
		if json.Unmarshal(body, &reshape) == nil {
			for id := range reshape.Inventories {
				provider(id)
			}
			consumers(reshape.Allocations)
		}
	case parts[0] == "traits":
		out = append(out, object{kind: namesObject, names: placement.TraitName})
	case parts[0] == "resource_classes":
		out = append(out, object{kind: namesObject, names: placement.ClassName})
	}
	return out
}

// canonical gives a uuid in the form that Placement stores.
func canonical(id string) string {
	if uuid, ok := placement.CanonicalUUID(id); ok {
		return uuid
	}
	return id
}
