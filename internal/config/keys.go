package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// EnvPrefix is the prefix of every environment variable that sets a key.
const EnvPrefix = "CELLGATE_"

// Key is one setting that the environment and flags can set, too.
type Key struct {
	// Path is the key in the file: gateway.propose_budget.
	Path string
	// Env is the key's environment variable, Flag its flag without dashes.
	Env, Flag string
	Help      string
	// Default is the default as text; "" for a zero value and an empty list.
	Default string
	Kind    KeyKind
	// Range is the allowed range of a number or a duration, Unit what a number counts.
	Range Range
	Unit  string
	// Reload is when a new value takes effect: restart, SIGHUP, or file, whose content is read again.
	Reload string
	// Secret: the value is a URL with a password, which is never shown.
	Secret bool
	// Nova is the option of nova.conf that sets the key too, as "[pci] alias"; "" for none.
	Nova string
	// Entry are the keys of a Table's entries, which neither flags nor the environment can set.
	Entry []Key
}

// KeyKind says how a key's text is parsed.
type KeyKind int

// The kinds of keys.
const (
	Text KeyKind = iota
	Bool
	Number
	Duration
	// List is separated by commas.
	List
	// Table is a list of structs: a flag may be repeated for each, and the environment separates them
	// by semicolons.
	Table
)

// String is the kind's name in usage texts.
func (k KeyKind) String() string {
	return [...]string{"text", "", "number", "duration", "list", "entry"}[k]
}

// Keys lists the keys of a section, in their order in sections.go.
func Keys(section string) []Key {
	d := Default()
	v, ok := fieldByKey(reflect.ValueOf(&d).Elem(), section)
	if !ok {
		panic("config: no section " + section) // a defect: sections are constants of cmd
	}
	return keysOf(v, section, "", "")
}

// keysOf lists the keys of a struct. The keys of a nested struct have its name as a prefix. reload
// applies to keys without a reload tag.
func keysOf(v reflect.Value, section, part, reload string) []Key {
	var keys []Key
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := f.Tag.Get("yaml")
		k := Key{
			Path:   section + "." + part + name,
			Help:   f.Tag.Get("help"),
			Kind:   kindOf(f.Type),
			Range:  Range(f.Tag.Get("range")),
			Unit:   f.Tag.Get("unit"),
			Secret: f.Tag.Get("secret") != "",
			Nova:   f.Tag.Get("nova"),
			Reload: cmp.Or(f.Tag.Get("reload"), reload, "restart"),
		}
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(v.Field(i), section, part+name+".", f.Tag.Get("reload"))...)
			continue
		}
		flat := strings.ReplaceAll(part, ".", "_") + name
		k.Env, k.Flag = EnvPrefix+strings.ToUpper(section+"_"+flat), cmp.Or(f.Tag.Get("flag"), strings.ReplaceAll(flat, "_", "-"))
		switch field := v.Field(i); {
		case k.Kind == Table:
			k.Entry = keysOf(reflect.Zero(f.Type.Elem()), section, part+name+"[].", k.Reload)
			for j := range k.Entry {
				k.Entry[j].Env, k.Entry[j].Flag = "", ""
			}
		case k.Kind == List:
			for j := range field.Len() {
				k.Default += "," + field.Index(j).String()
			}
			k.Default = strings.TrimPrefix(k.Default, ",")
		case !field.IsZero():
			k.Default = fmt.Sprint(field.Interface())
		}
		keys = append(keys, k)
	}
	return keys
}

func kindOf(t reflect.Type) KeyKind {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return Duration
	case t.Kind() == reflect.Bool:
		return Bool
	case t.Kind() == reflect.String:
		return Text
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return Table
	case t.Kind() == reflect.Slice:
		return List
	}
	return Number
}

// fieldByKey finds the field of a struct with a YAML name.
func fieldByKey(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// names lists the YAML names of a struct's fields.
func names(t reflect.Type) []string {
	var all []string
	for i := range t.NumField() {
		all = append(all, t.Field(i).Tag.Get("yaml"))
	}
	return all
}

// Value returns the value of a key, by its path (Key.Path).
func Value(c Config, path string) reflect.Value {
	return field(&c, path)
}

// field returns the field of a key.
func field(c *Config, path string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v, _ = fieldByKey(v, name)
	}
	return v
}

// Set gives a key a value of its type.
func Set(c *Config, path string, value any) { field(c, path).Set(reflect.ValueOf(value)) }

// Lasting is the configuration of a section without the keys that SIGHUP changes: the part that holds
// until a restart.
func Lasting(c Config, section string) Config {
	for _, k := range Keys(section) {
		if k.Reload == "SIGHUP" {
			field(&c, k.Path).SetZero()
		}
	}
	return c
}

// String formats a cell as a flag accepts it, and marks a disabled one.
func (c GatewayCell) String() string {
	uuid := ""
	if c.UUID != "" {
		uuid = c.UUID + "@"
	}
	text := c.Name + "=" + uuid + strings.Join(c.Replicas, ",")
	if c.Disabled {
		text += " (disabled)"
	}
	return text
}
