package shard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"cellgate/internal/fault"
)

// Namespace is an object of facts that a service reports of a host. It is a row beside the host's row; reports of the
// host do not change it. The row with an empty name stands for all names without a row: its Generation is the latest at
// which one of them was deleted, so that an older write does not bring it back. Only transactions see that row. Until a
// host has it, the host's generation is used.
type Namespace struct {
	HostUUID string
	Name     string
	// Facts is a JSON object, as CanonicalFacts writes it; empty: the namespace is deleted.
	Facts string
	// Generation is the host's generation after this write; the higher one is newer.
	Generation int64
}

// Deleted reports whether a store drops the row.
func (n *Namespace) Deleted() bool { return n.Facts == "" && n.Name != "" }

// Bounds of namespaces: the bytes of one, their number on a host, the bytes of all of a host, how deep objects and lists
// nest, and the length of a name.
const (
	MaxNamespace      = 64 << 10
	MaxNamespaces     = 64
	MaxNamespaceBytes = 256 << 10
	MaxFactsDepth     = 16
	maxNamespaceName  = 63
)

// PutFacts writes a namespace of a host, or deletes it (empty Facts). If the host does not exist, it is refused:
// NOT_FOUND. Equal facts are not written, unless AsOf is set.
type PutFacts struct {
	HostUUID  string
	Namespace string
	// Facts is the text of a JSON object.
	Facts string
	// IfGeneration, unless 0, must be the row's generation, or -1 for no row; else STALE_GENERATION, and
	// Outcome.Namespace is the stored row.
	IfGeneration int64
	// AsOf, unless 0, is as in SetAdminState. A name without a row counts with the generation of the host's last
	// deletion.
	AsOf int64
}

// putFacts writes a namespace, and the host's usage with it (touchUsage).
func (t *transaction) putFacts(p *PutFacts) Outcome {
	text, problem := p.read()
	if problem != "" {
		return refused(fault.InvalidRequest, "%s", problem)
	}
	if t.view.Hosts[p.HostUUID] == nil {
		return noHost(p.HostUUID)
	}
	of := t.view.Namespaces[p.HostUUID]
	old, newest, same := of[p.Namespace], t.lastDeletion(p.HostUUID), text == ""
	if old != nil && old.Deleted() {
		old = nil
	}
	if old != nil {
		newest, same = old.Generation, old.Facts == text
	}
	switch {
	case p.IfGeneration < 0 && old != nil, p.IfGeneration > 0 && (old == nil || old.Generation != p.IfGeneration):
		is := "is not there"
		if old != nil {
			is = fmt.Sprintf("is of generation %d", old.Generation)
		}
		o := refused(fault.StaleGeneration, "if_generation: namespace %s of host %s %s", p.Namespace, p.HostUUID, is)
		o.Namespace = old
		return o
	case p.AsOf != 0 && newest > p.AsOf:
		return t.refuseOvertaken(p.HostUUID, fmt.Sprintf("namespace %s of host %s", p.Namespace, p.HostUUID), newest, p.AsOf)
	case same && p.AsOf == 0:
		return Outcome{Namespace: old}
	}
	if text != "" && !same {
		count, size := 1, len(text)
		for name, n := range of {
			if name != p.Namespace && n.Facts != "" {
				count, size = count+1, size+len(n.Facts)
			}
		}
		switch {
		case count > MaxNamespaces:
			return refused(fault.InvalidRequest, "namespace: the host has %d namespaces, which is as many as it may have", MaxNamespaces)
		case size > MaxNamespaceBytes:
			return refused(fault.InvalidRequest, "facts: the host's namespaces come to %d bytes with it, must be at most %d", size, MaxNamespaceBytes)
		}
	}
	n := &Namespace{HostUUID: p.HostUUID, Name: p.Namespace, Facts: text, Generation: t.nextGeneration(p.HostUUID)}
	if text == "" {
		t.writeNamespace(&Namespace{HostUUID: p.HostUUID, Generation: n.Generation})
	} else if of[""] == nil {
		t.writeNamespace(&Namespace{HostUUID: p.HostUUID, Generation: newest})
	}
	t.writeNamespace(n)
	t.touchUsage(p.HostUUID, n.Generation)
	if text == "" {
		n = nil
	}
	return Outcome{Namespace: n}
}

// lastDeletion is the generation of the host's last deletion of a namespace, or the host's if that is not known.
func (t *transaction) lastDeletion(host string) int64 {
	if n := t.view.Namespaces[host][""]; n != nil {
		return n.Generation
	}
	return t.nextGeneration(host) - 1
}

func (t *transaction) writeNamespace(n *Namespace) {
	of := t.view.Namespaces[n.HostUUID]
	if of == nil {
		of = map[string]*Namespace{}
		t.view.Namespaces[n.HostUUID] = of
	}
	of[n.Name] = n
	t.touch(namespaceRow, n.HostUUID+" "+n.Name)
}

// read gives the facts in canonical form, or what is wrong with the operation.
func (p *PutFacts) read() (text, problem string) {
	if r := idsProblem("host_uuid", p.HostUUID); r != "" {
		return "", r
	}
	if p.AsOf < 0 {
		return "", "as_of_generation: must not be below 0"
	}
	if r := NamespaceProblem(p.Namespace); r != "" {
		return "", "namespace: " + r
	}
	if p.Facts == "" {
		return "", ""
	}
	text, err := CanonicalFacts(p.Facts)
	if err != nil {
		return "", "facts: " + err.Error()
	}
	return text, ""
}

// NamespaceProblem says what is wrong with a namespace's name; "" for nothing.
func NamespaceProblem(name string) string {
	ok := name != "" && len(name) <= maxNamespaceName && name[0] >= 'a' && name[0] <= 'z'
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_'
	}
	if !ok {
		return fmt.Sprintf("must be a lower-case letter, then lower-case letters, digits and _; at most %d in all", maxNamespaceName)
	}
	return ""
}

// CanonicalFacts writes a JSON object in the one form that is stored: no spaces, keys in order, numbers as given. It
// fails for anything but an object, and beyond MaxNamespace and MaxFactsDepth.
func CanonicalFacts(text string) (string, error) {
	if len(text) > MaxNamespace {
		return "", fmt.Errorf("has %d bytes, must have at most %d", len(text), MaxNamespace)
	}
	if !utf8.ValidString(text) {
		return "", errors.New("is not UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil || object == nil {
		return "", errors.New("must be a JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("must be one JSON object, and nothing after it")
	}
	if problem := factProblem("", object, MaxFactsDepth); problem != "" {
		return "", errors.New(problem)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return "", err
	}
	out := strings.TrimSuffix(b.String(), "\n")
	if len(out) > MaxNamespace {
		return "", fmt.Errorf("has %d bytes, must have at most %d", len(out), MaxNamespace)
	}
	return out, nil
}

// factProblem says what in a value cannot be stored, with its path: a NUL in a text, which not every database
// accepts, a number beyond float64, or objects and lists deeper in each other than depth. "" for nothing.
func factProblem(path string, v any, depth int) string {
	switch v.(type) {
	case []any, map[string]any:
		if depth == 0 {
			return fmt.Sprintf("objects and lists stand in each other deeper than %d", MaxFactsDepth)
		}
	}
	switch v := v.(type) {
	case string:
		if strings.IndexByte(v, 0) >= 0 {
			return path + " has a NUL"
		}
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return path + " is a number beyond a float64"
		}
	case []any:
		for i := range v {
			if p := factProblem(fmt.Sprintf("%s[%d]", path, i), v[i], depth-1); p != "" {
				return p
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if strings.IndexByte(key, 0) >= 0 {
				return fmt.Sprintf("%s.%q has a NUL", path, key)
			}
			if p := factProblem(path+"."+key, v[key], depth-1); p != "" {
				return p
			}
		}
	}
	return ""
}

// SortNamespaces orders rows by host, then name.
func SortNamespaces(list []*Namespace) {
	slices.SortFunc(list, func(a, b *Namespace) int {
		return cmp.Or(cmp.Compare(a.HostUUID, b.HostUUID), cmp.Compare(a.Name, b.Name))
	})
}
