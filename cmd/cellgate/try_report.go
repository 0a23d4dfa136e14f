package main

import (
	_ "embed" // the report
	"errors"
	"fmt"
	"html/template"
	"os"
	"strings"
	"time"

	"cellgate/gateway/legacy/try"
)

//go:embed try.html
var tryHTML string

var tryTemplate = template.Must(template.New("try").Funcs(template.FuncMap{
	"share": share, "rank": rankText, "took": tookText, "grouped": grouped,
}).Parse(tryHTML))

// tryReport is the report of a try, with the odd rows that an operator can correct.
type tryReport struct {
	*try.Report
	Odd results `json:"odd"`
	// Notes say what the report lacks because a database is missing.
	Notes []string `json:"notes,omitempty"`
}

// oddKind joins odd rows of one kind.
type oddKind struct {
	What, Do, Rows string
}

// Kinds gives the odd rows by kind, in the order in which kinds first come. A remedy that names a row
// names the first.
func (r *tryReport) Kinds() (kinds []oddKind) {
	const shown = 5
	rows := map[string][]string{}
	first := map[string]result{}
	var order []string
	for _, o := range r.Odd {
		kind, _, _ := strings.Cut(o.What, ": ")
		if rows[kind] == nil {
			order, first[kind] = append(order, kind), o
		}
		rows[kind] = append(rows[kind], o.Check)
	}
	for _, kind := range order {
		names, of := rows[kind], oddKind{What: first[kind].What, Do: first[kind].Do}
		if n := len(names); n > 1 {
			of.What = fmt.Sprintf("%d: %s", n, of.What)
			if n > shown {
				names = append(names[:shown:shown], fmt.Sprintf("and %d more", n-shown))
			}
		}
		of.Rows = strings.Join(names, ", ")
		kinds = append(kinds, of)
	}
	return kinds
}

func writeReport(file string, r *tryReport) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return errors.Join(tryTemplate.Execute(f, r), f.Close())
}

// share gives a part of a whole in percent.
func share(part, whole int64) int {
	if whole == 0 {
		return 0
	}
	return int(float64(part) * 100 / float64(whole))
}

// rankText writes the rank of Nova's host; "-" when a filter rejects that host.
func rankText(rank int) string {
	if rank == 0 {
		return "-"
	}
	return fmt.Sprint(rank)
}

func tookText(d time.Duration) string { return d.Round(time.Microsecond).String() }

// grouped writes the whole number 255744 as 255,744.
func grouped(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// BestShare gives the percentage of placed requests for which Nova's host is the best, or as good.
func (r *tryReport) BestShare() int { return share(int64(r.Summary.Best), int64(r.Summary.Placed)) }

// placedText describes how the requests fared.
func (r *tryReport) placedText() string {
	s := r.Summary
	text := fmt.Sprintf("%d of %d placed again, each alone on the hosts as they are now; Nova's host is the best, or as good, for %d %%; median %s",
		s.Placed, len(r.Replays), r.BestShare(), tookText(s.Median))
	if s.Refused > 0 {
		text += fmt.Sprintf("; %d refused", s.Refused)
	}
	if s.Unread > 0 {
		text += fmt.Sprintf("; %d cannot be read", s.Unread)
	}
	if r.Skipped > 0 {
		text += "; " + r.SkippedText()
	}
	return text
}

// SkippedText says which requests try does not place again; empty for none.
func (r *tryReport) SkippedText() string {
	if r.Skipped == 0 {
		return ""
	}
	return fmt.Sprintf("%d more are of instances that are gone, or in another cell: a greater --requests reads older ones", r.Skipped)
}

func (r *tryReport) show(p *page) {
	p.printf("%d hosts: %d available, %d disabled, %d down; %d instances", r.Hosts, r.Available, r.Disabled, r.Down, r.Instances)
	if r.NotCounted > 0 {
		p.printf(", and %d not counted", r.NotCounted)
	}
	p.printf("; read in %v, and nothing was written.\nServices are up or down as of %s UTC.\n\n", r.Took.Round(time.Millisecond), r.At.UTC().Format(time.DateTime))
	for _, n := range r.Notes {
		p.printf("%s\n", n)
	}
	classes := p.table("CLASS", "USED", "CAPACITY", "USED %")
	for _, c := range r.Classes {
		classes.row(c.Name, c.Used, c.Capacity, share(c.Used, c.Capacity))
	}
	classes.print()
	p.width = pageWidth
	odd := p.table("ODD", "WHAT", "WHAT TO DO")
	for _, o := range r.Kinds() {
		odd.row(o.Rows, o.What, o.Do)
	}
	odd.printBelow()
	flavors := p.table("FLAVOR", "VCPU", "MEMORY MIB", "DISK GB", "STILL FIT")
	for _, f := range r.Flavors {
		flavors.row(f.Name, f.VCPUs, f.MemoryMB, f.DiskGB, f.Fits)
	}
	flavors.printBelow()
	for _, f := range r.Flavors {
		p.labelled(f.Name, f.Problem)
	}
	replays := p.table("INSTANCE", "NOVA", "CELLGATE", "RANK OF NOVA'S", "PASSED", "TOOK")
	for _, x := range r.Replays {
		replays.row(x.Instance, x.Nova, x.Chosen, rankText(x.Rank), x.Passed, tookText(x.Took))
	}
	if replays.printBelow(); len(r.Replays)+r.Skipped > 0 {
		p.prose("%s", r.placedText())
	}
	if len(r.Replays) > 0 {
		p.prose(`The rank is that of Nova's host in cellgate's order, 1 for one that is as good as the best; "-" where it is not among those that pass.`)
	}
	for _, x := range r.Replays {
		if x.Rejected != "" {
			p.labelled(x.Instance, x.Nova+" does not pass "+x.Rejected)
		}
	}
	for _, x := range r.Replays {
		p.labelled(x.Instance, x.Problem)
	}
}
