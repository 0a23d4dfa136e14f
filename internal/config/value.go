package config

import (
	"reflect"
	"strings"
)

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
