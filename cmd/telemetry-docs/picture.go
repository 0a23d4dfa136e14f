package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"slices"
	"strings"
	"time"

	"cellgate/internal/telemetry"
)

// readTrace gives the spans of the trace that ended last, of a file of spans.
func readTrace(path string) ([]telemetry.SpanLine, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	var all []telemetry.SpanLine
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s telemetry.SpanLine
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(all)+1, err)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New(path + " has no spans")
	}
	last := all[len(all)-1].Trace
	return slices.DeleteFunc(all, func(s telemetry.SpanLine) bool { return s.Trace != last }), nil
}

// row is a span in the picture.
type row struct {
	telemetry.SpanLine
	depth int
}

// rows puts the spans below their parents, by start.
func rows(spans []telemetry.SpanLine) []row {
	known := map[string]bool{}
	for _, s := range spans {
		known[s.Span] = true
	}
	below := map[string][]telemetry.SpanLine{}
	for _, s := range spans {
		parent := s.Parent
		if !known[parent] {
			parent = "" // the caller's, in another process
		}
		below[parent] = append(below[parent], s)
	}
	var out []row
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		children := below[parent]
		slices.SortStableFunc(children, func(a, b telemetry.SpanLine) int {
			return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(b.Micros, a.Micros))
		})
		for _, c := range children {
			out = append(out, row{c, depth})
			add(c.Span, depth+1)
		}
	}
	add("", 0)
	return out
}

const (
	margin    = 24
	nameWidth = 400
	barWidth  = 760
	lineHigh  = 22
	top       = 96
)

// colors of the places where time goes.
var colors = []struct{ prefix, name, color string }{
	{"shard.", "shard", "#c2410c"},
	{"cellgate.cell.", "cell", "#15803d"},
	{"cell.", "cell", "#15803d"},
	{"", "gateway", "#1d4ed8"},
}

func colorOf(name string) string {
	for _, c := range colors {
		if strings.HasPrefix(name, c.prefix) {
			return c.color
		}
	}
	return "#000"
}

// draw gives a waterfall of one trace, as SVG.
func draw(spans []telemetry.SpanLine) string {
	all := rows(spans)
	begin, end := all[0].Start, all[0].Start
	for _, r := range all {
		if r.Start.Before(begin) {
			begin = r.Start
		}
		if e := r.Start.Add(duration(r)); e.After(end) {
			end = e
		}
	}
	total := max(end.Sub(begin), time.Microsecond)
	width, high := 2*margin+nameWidth+barWidth+70, top+len(all)*lineHigh+margin
	x := func(d time.Duration) float64 {
		return margin + nameWidth + barWidth*float64(d)/float64(total)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="12">`+"\n", width, high, width, high)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, high)
	fmt.Fprintf(&b, `<text x="%d" y="30" font-size="17" font-weight="600" fill="#111827">%s: %s, %d spans</text>`+"\n",
		margin, esc(short(all[0].Name)), esc(millis(total)), len(all))
	fmt.Fprintf(&b, `<text x="%d" y="50" fill="#6b7280">trace %s%s</text>`+"\n", margin, esc(all[0].Trace), esc(subtitle(all[0])))
	at := width - margin - 270
	for _, c := range []struct{ name, color string }{{"gateway", "#1d4ed8"}, {"cell", "#15803d"}, {"shard", "#c2410c"}} {
		fmt.Fprintf(&b, `<rect x="%d" y="19" width="12" height="12" rx="2" fill="%s"/><text x="%d" y="29" fill="#374151">%s</text>`+"\n", at, c.color, at+18, c.name)
		at += 100
	}
	step := nice(total / 6)
	for d := time.Duration(0); d <= total; d += step {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#e5e7eb"/><text x="%.1f" y="%d" text-anchor="middle" fill="#6b7280" font-size="11">%s</text>`+"\n",
			x(d), top-10, x(d), high-margin+6, x(d), top-16, millis(d))
	}
	for i, r := range all {
		y := top + i*lineHigh
		if i%2 == 0 {
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#f9fafb" fill-opacity="0.7"/>`+"\n", margin-6, y, width-2*margin+12, lineHigh)
		}
		from, to := x(r.Start.Sub(begin)), x(r.Start.Add(duration(r)).Sub(begin))
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#111827">%s<tspan dx="8" fill="#6b7280">%s</tspan></text>`+"\n",
			margin+r.depth*16, y+15, esc(short(r.Name)), esc(note(r)))
		color := colorOf(r.Name)
		if r.Error != "" {
			color = "#b91c1c"
		}
		fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="%s"><title>%s</title></rect>`+"\n",
			from, y+4, max(to-from, 1.5), lineHigh-8, color, esc(title(r)))
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#374151" font-size="11">%s</text>`+"\n", max(to, from+1.5)+5, y+15, esc(millis(duration(r))))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func duration(r row) time.Duration { return time.Duration(r.Micros * float64(time.Microsecond)) }

func esc(s string) string { return html.EscapeString(s) }

// short leaves out the package of an RPC.
func short(name string) string {
	if service, method, ok := strings.Cut(name, "/"); ok {
		return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
	}
	return name
}

func subtitle(r row) string {
	if id, ok := r.Attributes[telemetry.AttrDecision.Name]; ok {
		return fmt.Sprintf(", decision %v", id)
	}
	return ""
}

// note says in the row what tells a span from its like.
func note(r row) string {
	var words []string
	for _, a := range []struct {
		attribute telemetry.Attribute
		form      string
	}{
		{telemetry.AttrCell, "%v"},
		{telemetry.AttrRound, "round %v"},
		{telemetry.AttrRounds, "rounds: %v"},
		{telemetry.AttrCount, "instances: %v"},
		{telemetry.AttrPassed, "%v hosts passed"},
	} {
		if v, ok := r.Attributes[a.attribute.Name]; ok {
			words = append(words, fmt.Sprintf(a.form, v))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, ", ")
}

func title(r row) string {
	lines := []string{r.Name + " " + millis(duration(r))}
	for _, a := range telemetry.Attributes() {
		if v, ok := r.Attributes[a.Name]; ok {
			lines = append(lines, fmt.Sprintf("%s = %v", a.Name, v))
		}
	}
	return strings.Join(lines, "\n")
}

func millis(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Microsecond:
		return "<1 µs"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// nice rounds up to 1, 2 or 5 times a power of ten.
func nice(d time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if n*unit >= d {
				return n * unit
			}
		}
	}
}
