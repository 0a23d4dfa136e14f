package config

import (
	"reflect"
	"strings"
)

// Value gives the value of a key (Key.Path).
func Value(c Config, path string) reflect.Value {
	return field(&c, path)
}

// field finds the field of a key.
func field(c *Config, path string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v, _ = fieldByKey(v, name)
	}
	return v
}

// Set gives a key a value of its type.
func Set(c *Config, path string, value any) { field(c, path).Set(reflect.ValueOf(value)) }

// Lasting is a section's configuration without the keys that SIGHUP changes: what counts until
// a restart.
func Lasting(c Config, section string) Config {
	for _, k := range Keys(section) {
		if k.Reload == "SIGHUP" {
			field(&c, k.Path).SetZero()
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
