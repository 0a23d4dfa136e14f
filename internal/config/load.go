package config

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"cellgate/internal/fault"
	"cellgate/internal/suggest"
)

// Source is where a process's configuration comes from.
type Source struct {
	// File is a YAML file's path; "" means none.
	File string
	// Env is the environment, as os.Environ gives it.
	Env []string
	// Flags are the flags given, by key path; the values of a Table are joined by ";".
	Flags map[string]string
	// Check, if set, returns further problems of the section's values, by key path: those that only the
	// process can know.
	Check func(Config) []fault.Field
	// Fill, if set, sets keys that file, environment and flags leave unset, before anything is checked.
	// It adds to the origins where the values come from, and returns problems by key path.
	Fill func(*Config, Origins) []fault.Field
}

// Origins maps key paths to where the value was set: file:line, a variable or a flag. Keys with their
// default are missing.
type Origins map[string]string

// Load reads the configuration of a section ("gateway", "cell", "agent" or
// "dev"), of log and of telemetry, and checks it. Its error is a *Problems.
func Load(section string, src Source) (Config, error) {
	c, _, err := LoadWithOrigins(section, src)
	return c, err
}

// LoadWithOrigins is Load that also returns where each value was set.
func LoadWithOrigins(section string, src Source) (Config, Origins, error) {
	c := Default()
	l := &loader{config: &c, file: src.File, origin: map[string]string{}, outOfRange: map[string]bool{}}
	if src.File != "" {
		text, err := os.ReadFile(src.File)
		if err != nil {
			l.problems.add("configuration file: %v", err)
			l.unread = true
		}
		l.readFile(text)
	}
	keys := slices.Concat(Keys("log"), Keys("telemetry"), Keys(section))
	l.readEnv(keys, src.Env)
	for _, k := range keys {
		if text, given := src.Flags[k.Path]; given {
			l.setKey(k, text, "--"+k.Flag)
		}
	}
	if l.unread {
		return c, l.origin, l.problems.err()
	}
	if src.Fill != nil {
		for _, f := range src.Fill(&c, l.origin) {
			l.bad(f.Path, "%s", f.Problem)
		}
	}
	l.check(section)
	if src.Check != nil {
		for _, f := range src.Check(c) {
			if !l.outOfRange[f.Path] {
				l.bad(f.Path, "%s", f.Problem)
			}
		}
	}
	return c, l.origin, l.problems.err()
}

// readEnv reads the variables of log, telemetry and the section. It reports a variable that has the
// prefix of a section but is not one of its keys, and a variable without a section's prefix that
// differs from a key by at most two letters. It leaves out those by which Kubernetes tells a pod of a
// service, such as CELLGATE_GATEWAY_SERVICE_HOST of a service cellgate-gateway.
func (l *loader) readEnv(keys []Key, env []string) {
	set := map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			set[name] = value
		}
	}
	for _, k := range keys {
		if text, ok := set[k.Env]; ok {
			l.setKey(k, text, k.Env)
		}
	}
	var known []string
	for _, section := range names(reflect.TypeFor[Config]()) {
		for _, k := range Keys(section) {
			known = append(known, k.Env)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		switch section := sectionOf(name); {
		case slices.Contains(known, name), ofService(name, set):
		case section != "":
			own := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return sectionOf(k) != section })
			l.problems.add("%s", unknown("environment variable", EnvPrefix+strings.ToUpper(section)+"_", name, own))
		case slices.ContainsFunc(known, func(k string) bool { return suggest.Distance(name, k) <= 2 }):
			l.problems.add("%s", unknown("environment variable", EnvPrefix, name, known))
		}
	}
}

// ofService reports whether a variable is one of those that Kubernetes sets for a service: NAME_SERVICE_…
// and NAME_PORT…, with NAME_SERVICE_HOST among them.
func ofService(name string, set map[string]string) bool {
	for _, mark := range []string{"_SERVICE_", "_PORT"} {
		if at := strings.Index(name, mark); at > 0 && set[name[:at]+"_SERVICE_HOST"] != "" {
			return true
		}
	}
	return false
}

// sectionOf returns the section whose prefix a variable's name has; "" for none.
func sectionOf(name string) string {
	for _, section := range names(reflect.TypeFor[Config]()) {
		if strings.HasPrefix(name, EnvPrefix+strings.ToUpper(section)+"_") {
			return section
		}
	}
	return ""
}

// setKey sets a key from text of the environment or a flag.
func (l *loader) setKey(k Key, text, from string) {
	if err := setText(field(l.config, k.Path), text); err != nil {
		l.problems.add("%s: %s: %v", from, k.Path, err)
		return
	}
	maps.DeleteFunc(l.origin, func(path, _ string) bool { return strings.HasPrefix(path, k.Path+"[") })
	l.origin[k.Path] = from
}
