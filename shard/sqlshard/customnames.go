package sqlshard

import (
	"slices"
	"strings"

	"cellgate/shard"
)

// customKey is the key of a custom name: its kind, a space, and the name.
func customKey(n shard.NameRef) string { return string(n.Kind) + " " + n.Name }

func customRef(key string) shard.NameRef {
	kind, name, _ := strings.Cut(key, " ")
	return shard.NameRef{Kind: shard.NameKind(kind), Name: name}
}

// customRows writes names. New ones are inserted without ON CONFLICT: if another replica was faster, the transaction
// runs again.
func (w *writes) customRows(list []*shard.CustomName) {
	var made, gone []string
	for _, n := range list {
		switch key := customKey(n.NameRef); {
		case n.Gone:
			gone = append(gone, key)
		case !w.before.custom[key]:
			made = append(made, key)
		}
	}
	slices.Sort(made)
	slices.Sort(gone)
	w.queueKeys(insertCustom, made)
	w.queueKeys(deleteCustom, gone)
}
