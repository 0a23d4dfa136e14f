package config

import (
	"reflect"
	"strings"
)

// Value gives the value of a key (Key.Path).
func Value(c Config, path string) reflect.Value {
	v := reflect.ValueOf(&c).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v, _ = fieldByKey(v, name)
	}
	return v
}

// Lasting is a section's configuration without the keys that SIGHUP changes: what counts until
// a restart.
func Lasting(c Config, section string) Config {
	all := reflect.ValueOf(&c).Elem()
	for _, k := range Keys(section) {
		if k.Reload == "SIGHUP" {
			v := all
			for name := range strings.SplitSeq(k.Path, ".") {
				v, _ = fieldByKey(v, name)
			}
			v.SetZero()
		}
	}
	return c
}

// String writes a cell as a flag takes it.
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
