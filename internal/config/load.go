package config

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
)

// Source is where a process's configuration comes from.
type Source struct {
	// File is a YAML file's path; "" means none.
	File string
	// Env is the environment, as os.Environ gives it.
	Env []string
	// Flags are the flags given, by key path; those of a Table joined by ";".
	Flags map[string]string
}

// Load reads the configuration of a section ("gateway", "cell", "agent" or
// "dev"), of log and of telemetry, and checks it. Its error is a *Problems.
func Load(section string, src Source) (Config, error) {
	c := Default()
	l := &loader{config: &c, file: src.File, origin: map[string]string{}}
	if src.File != "" {
		text, err := os.ReadFile(src.File)
		if err != nil {
			l.problems.add("configuration file: %v", err)
		}
		l.readFile(text)
	}
	keys := slices.Concat(Keys("log"), Keys("telemetry"), Keys(section))
	l.readEnv(section, keys, src.Env)
	for _, k := range keys {
		if text, given := src.Flags[k.Path]; given {
			l.setKey(k, text, "--"+k.Flag)
		}
	}
	l.check(section)
	return c, l.problems.err()
}

// readEnv takes in the variables of log, telemetry and the section. A variable that
// starts like the section's keys and is none of them is a problem.
func (l *loader) readEnv(section string, keys []Key, env []string) {
	set := map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && ofSection(name, section) {
			set[name] = value
		}
	}
	for _, k := range keys {
		if text, ok := set[k.Env]; ok {
			l.setKey(k, text, k.Env)
			delete(set, k.Env)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		var known []string
		for _, k := range keys {
			known = append(known, k.Env)
		}
		l.problems.add("%s", unknown("environment variable", name, known))
	}
}

func ofSection(name, section string) bool {
	return strings.HasPrefix(name, EnvPrefix+strings.ToUpper(section)+"_") ||
		strings.HasPrefix(name, EnvPrefix+"LOG_") || strings.HasPrefix(name, EnvPrefix+"TELEMETRY_")
}

// setKey sets a key from text that came from the environment or a flag.
func (l *loader) setKey(k Key, text, from string) {
	field := reflect.ValueOf(l.config).Elem()
	for name := range strings.SplitSeq(k.Path, ".") {
		field, _ = fieldByKey(field, name)
	}
	if err := setText(field, text); err != nil {
		l.problems.add("%s: %s: %v", from, k.Path, err)
		return
	}
	maps.DeleteFunc(l.origin, func(path, _ string) bool { return strings.HasPrefix(path, k.Path+"[") })
	l.origin[k.Path] = from
}
