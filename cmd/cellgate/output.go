package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// page collects what a command shows to people: lines and tables.
type page struct {
	bytes.Buffer
	// wide: tables have every column, whatever their width. names: only the first column of the first
	// table shows.
	wide, names bool
	// width bounds the columns of a table's line, where its words allow it; 0 for no bound.
	width int
	// record: unless the page is wide, the first table shows each row as a block, with a line for every
	// column.
	record bool
	// sort is the text of --sort for the first table. unsorted says why the table cannot be sorted so.
	sort     string
	unsorted error
	// first is how many sorted rows the page shows, 0 for all. cut: there are more.
	first int
	cut   bool
	// colored: states that need somebody's attention have a colour.
	colored bool
	tables  int
	// notes say what the names of the page lack. Scripts read the page, so callOnce writes notes to
	// standard error.
	notes []string
}

func (p *page) printf(format string, args ...any) {
	if !p.names {
		fmt.Fprintf(&p.Buffer, format, args...)
	}
}

// note writes a line that says what the page lacks.
func (p *page) note(format string, args ...any) {
	if p.names {
		p.notes = append(p.notes, fmt.Sprintf(format, args...))
	}
	p.printf(format+"\n", args...)
}

// prose writes a text on as many lines as it needs.
func (p *page) prose(format string, args ...any) { p.lines("", fmt.Sprintf(format, args...)) }

// item writes a text as one item of a list.
func (p *page) item(text string) { p.lines("- ", text) }

// lines writes a text behind a mark, on as many lines as it needs.
func (p *page) lines(mark, text string) {
	lines := []string{text}
	if p.width > 0 {
		lines = broken(text, p.width-len(mark))
	}
	for i, line := range lines {
		if i > 0 {
			mark = strings.Repeat(" ", len(mark))
		}
		p.printf("%s%s\n", mark, line)
	}
}

// labelled writes a text behind a name, on as many lines as it needs.
func (p *page) labelled(name, text string) {
	if !p.names && text != "" {
		p.columns([][]string{{name + ":", printable(text)}}, false)
	}
}

// show writes to w the page that fill fills.
func show(w io.Writer, fill func(*page)) error {
	var p page
	fill(&p)
	_, err := p.WriteTo(w)
	return err
}

// table aligns rows under headers. A header that begins with wideOnly names a column that only wide
// pages have, so that a row fits 100 columns.
type table struct {
	page    *page
	headers []string
	rows    [][]string
}

const wideOnly = "+"

func (p *page) table(headers ...string) *table { return &table{page: p, headers: headers} }

// row adds a row. It writes an empty cell as "-", and control characters as printable does.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = printable(fmt.Sprint(c)); texts[i] == "" {
			texts[i] = "-"
		}
	}
	t.rows = append(t.rows, texts)
}

// print writes the table on its page.
func (t *table) print() {
	p := t.page
	if p.tables++; p.tables == 1 && p.sort != "" {
		p.unsorted = t.sortBy(p.sort)
		if p.first > 0 && len(t.rows) > p.first {
			t.rows, p.cut = t.rows[:p.first], true
		}
	}
	if p.names {
		for _, r := range t.rows {
			if p.tables == 1 {
				fmt.Fprintln(&p.Buffer, r[0])
			}
		}
		return
	}
	if p.record && !p.wide && p.tables == 1 {
		for i, r := range t.rows {
			if i > 0 {
				p.printf("\n")
			}
			block := make([][]string, len(r))
			for k, text := range r {
				block[k] = []string{strings.TrimPrefix(t.headers[k], wideOnly), text}
			}
			p.columns(block, false)
		}
		return
	}
	lines := make([][]string, 0, len(t.rows)+1)
	for _, r := range append([][]string{t.headers}, t.rows...) {
		var shown []string
		for i, text := range r {
			if p.wide || !strings.HasPrefix(t.headers[i], wideOnly) {
				shown = append(shown, strings.TrimPrefix(text, wideOnly))
			}
		}
		lines = append(lines, shown)
	}
	p.columns(lines, true)
}

// printBelow writes a table that has rows below what the page has.
func (t *table) printBelow() {
	if len(t.rows) > 0 {
		t.page.printf("\n")
		t.print()
	}
}

// printable escapes characters that break lines or control a terminal, as Go writes them: \n, \x1b.
func printable(text string) string {
	quoted := strconv.Quote(text)
	return unescaped.Replace(quoted[1 : len(quoted)-1])
}

// unescaped restores the characters that only a quoted text has to escape.
var unescaped = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// of gives "used/capacity" of whole amounts.
func of[N int32 | int64](used, capacity N) string { return fmt.Sprintf("%d/%d", used, capacity) }

// counted writes a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// joined joins the texts of a list's items.
func joined[T any](list []T, text func(T) string, between string) string {
	var all []string
	for _, v := range list {
		all = append(all, text(v))
	}
	return strings.Join(all, between)
}

// resources collects the amounts that tables show: three classes in columns, the others as text.
type resources struct {
	cpu, memory, disk string
	other             []string
}

func (r *resources) add(class string, used, capacity int64) {
	switch class {
	case "VCPU":
		r.cpu = of(used, capacity)
	case "MEMORY_MB":
		r.memory = of(used>>10, capacity>>10)
	case "DISK_GB":
		r.disk = of(used, capacity)
	default:
		r.other = append(r.other, class+" "+of(used, capacity))
	}
}

var jsonForm = protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}

// printMessage prints a message as JSON or YAML. It indents protojson's output anew, because protojson
// varies its blanks on purpose.
func printMessage(w io.Writer, m proto.Message, form string) error {
	raw, err := jsonForm.Marshal(m)
	if err != nil {
		return err
	}
	if _, isList := m.(*cellgatev1.ListHostsResponse); isList {
		raw = ofGetHostAlone.ReplaceAll(raw, nil)
	}
	return printJSON(w, raw, form)
}

// ofGetHostAlone matches the empty fields of a host that lists do not fill. In a list they would say
// that the host has none.
var ofGetHostAlone = regexp.MustCompile(`,\s*"(namespaces|numa_cells|device_pools|hardware_claims|hardware_problem)":\s*(\[\]|"")`)

// printValue prints a value as JSON or YAML.
func printValue(w io.Writer, v any, form string) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return printJSON(w, raw, form)
}

func printJSON(w io.Writer, raw json.RawMessage, form string) error {
	if form == "json" {
		return encode(w, raw)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return err
	}
	blockStyle(&doc)
	text, err := yaml.Marshal(&doc)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// blockStyle makes YAML that was JSON look like YAML. It leaves values in quotes, so that no reader
// takes a text for a number or a bool.
func blockStyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
	}
	for i, c := range n.Content {
		if blockStyle(c); n.Kind == yaml.MappingNode && i%2 == 0 {
			c.Style = 0
		}
	}
}

// encode prints a value as indented JSON.
func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
