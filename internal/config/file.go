package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// loader reads values into a Config and remembers where each was set.
type loader struct {
	config   *Config
	file     string
	problems Problems
	// unread: the file cannot be read, so the effective values are unknown and are not checked.
	unread bool
	// origin maps each key path to where the effective value was set.
	origin map[string]string
	// outOfRange are the keys whose range was reported: other checks of them add nothing.
	outOfRange map[string]bool
}

// readFile reads a YAML document.
func (l *loader) readFile(text []byte) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return // an empty file sets nothing
	case err != nil:
		l.problems.add("%s: %v", l.file, err)
		l.unread = true
		return
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		l.problems.add("%s: holds more than one YAML document", l.file)
	}
	l.setValue(doc.Content[0], reflect.ValueOf(l.config).Elem(), "")
}

// setValue sets v from a node; path is the node's key.
func (l *loader) setValue(n *yaml.Node, v reflect.Value, path string) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // `key:` with nothing after it sets nothing
	}
	l.origin[path] = l.at(n)
	switch {
	case v.Kind() == reflect.Struct:
		l.setMapping(n, v, path)
	case v.Kind() == reflect.Slice:
		l.setSequence(n, v, path)
	case n.Kind != yaml.ScalarNode:
		l.problems.add("%s: %s: must be a single value, not a %s", l.at(n), path, kindName(n))
	default:
		if err := setText(v, n.Value); err != nil {
			l.problems.add("%s: %s: %v", l.at(n), path, err)
		}
	}
}

func (l *loader) setMapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		l.problems.add("%s: %s: must be a mapping of %v, not a %s", l.at(n), cmp.Or(path, "the file"), names(v.Type()), kindName(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		sub := join(path, key.Value)
		field, ok := fieldByKey(v, key.Value)
		switch {
		case !ok:
			l.problems.add("%s: %s", l.at(key), unknown("key", join(path, ""), sub, prefixed(path, names(v.Type()))))
		case seen[key.Value] > 0:
			l.problems.add("%s: %s: is set twice; first in line %d", l.at(key), sub, seen[key.Value])
		default:
			l.setValue(value, field, sub)
		}
		seen[key.Value] = key.Line
	}
}

func (l *loader) setSequence(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		l.problems.add("%s: %s: must be a list, not a %s", l.at(n), path, kindName(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		l.setValue(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (l *loader) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", l.file, n.Line) }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func prefixed(path string, names []string) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = join(path, n)
	}
	return all
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	}
	return "single value"
}
