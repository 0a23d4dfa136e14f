package main

import (
	"fmt"
	"os"
	"strings"

	"cellgate/internal/telemetry"
)

// marker divides a page into the part that people write and the generated part.
const marker = "<!-- From here on generated from internal/telemetry/names*.go by `make gen`. -->\n"

// rewrite replaces what follows the marker.
func rewrite(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, _, ok := strings.Cut(string(old), marker)
	if !ok {
		return fmt.Errorf("%s has no line %q", path, strings.TrimSpace(marker))
	}
	return os.WriteFile(path, []byte(head+marker+tables()), 0o644)
}

// tables gives the tables of metrics, labels, spans and attributes.
func tables() string {
	var b strings.Builder
	b.WriteString("\n## Metrics\n")
	of := ""
	for _, m := range telemetry.Metrics() {
		if m.Of != of {
			of = m.Of
			fmt.Fprintf(&b, "\nOf %s:\n\n| metric | type | labels | what |\n|---|---|---|---|\n", article(of))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels(m), m.Help)
	}
	b.WriteString("\n### Labels\n\n| label | of | values |\n|---|---|---|\n")
	listed := map[string]bool{}
	for _, m := range telemetry.Metrics() {
		for _, l := range m.Labels {
			values := l.From
			if l.Values != nil {
				values = "`" + strings.Join(l.Values, "`, `") + "`"
			}
			if row := fmt.Sprintf("| `%s` | %s | %s |\n", l.Name, users(l.Name, values), values); !listed[l.Name+values] {
				listed[l.Name+values] = true
				b.WriteString(row)
			}
		}
	}
	b.WriteString("\n### Buckets\n\n")
	seen := map[string]bool{}
	for _, m := range telemetry.Metrics() {
		if text := fmt.Sprint(m.Buckets); m.Kind == telemetry.Histogram && !seen[text] {
			seen[text] = true
			what := "of " + m.Unit
			if m.Unit == "" {
				what = "of counts, as `" + m.Name + "`"
			}
			fmt.Fprintf(&b, "- %s: %s\n", what, strings.Join(strings.Fields(strings.Trim(text, "[]")), ", "))
		}
	}
	b.WriteString("\n## Spans\n\n| span | of | what | attributes |\n|---|---|---|---|\n")
	for _, s := range telemetry.Spans() {
		var names []string
		for _, a := range s.Attributes {
			names = append(names, "`"+a.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, s.Of, s.Help, strings.Join(names, ", "))
	}
	b.WriteString("\n| attribute | what |\n|---|---|\n")
	for _, a := range telemetry.Attributes() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", a.Name, a.Help)
	}
	return b.String()
}

// users names the metrics that have a label with these values.
func users(label, values string) string {
	n, first := 0, ""
	for _, m := range telemetry.Metrics() {
		for _, l := range m.Labels {
			v := l.From
			if l.Values != nil {
				v = "`" + strings.Join(l.Values, "`, `") + "`"
			}
			if l.Name == label && v == values {
				if n++; n == 1 {
					first = "`" + m.Name + "`"
				}
			}
		}
	}
	if n > 1 {
		return fmt.Sprintf("%d metrics", n)
	}
	return first
}

func article(process string) string {
	switch process {
	case "agent":
		return "an agent"
	case "gateway", "cell":
		return "a " + process
	}
	return process
}

func labels(m telemetry.Metric) string {
	var names []string
	for _, l := range m.Labels {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}
