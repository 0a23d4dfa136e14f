package gateway

import (
	"fmt"
	"strings"

	"cellgate/schedule"
)

// differenceOf says how two answers to one query differ, but for busy hosts; "" when
// they do not. counts is false when there were busy hosts alone.
func differenceOf(old, native *schedule.Proposal, busy map[string]bool) (detail string, counts bool) {
	if d := old.Passed - native.Passed; d > len(busy) || -d > len(busy) {
		return fmt.Sprintf("%d hosts pass by the legacy rows, %d by the cell's table", old.Passed, native.Passed), true
	}
	a, b := idle(old, busy), idle(native, busy)
	if len(a) == 0 && len(b) == 0 {
		return "", old.Passed == 0 && native.Passed == 0
	}
	// A list that was cut off may end earlier for the busy hosts in it.
	n := min(comparedHosts, len(a), len(b))
	if len(old.Candidates) >= old.Passed && len(native.Candidates) >= native.Passed {
		n = min(comparedHosts, max(len(a), len(b)))
	}
	for i := range n {
		switch {
		case i >= len(a):
			return fmt.Sprintf("place %d: none by the legacy rows, %s by the cell's table", i+1, b[i].ServiceHost), true
		case i >= len(b):
			return fmt.Sprintf("place %d: %s by the legacy rows, none by the cell's table", i+1, a[i].ServiceHost), true
		case a[i].Host != b[i].Host:
			return fmt.Sprintf("place %d: %s by the legacy rows, %s by the cell's table", i+1, a[i].ServiceHost, b[i].ServiceHost), true
		}
	}
	return "", n > 0
}

// idle gives the candidates whose hosts are not busy.
func idle(p *schedule.Proposal, busy map[string]bool) []schedule.Candidate {
	var out []schedule.Candidate
	for _, c := range p.Candidates {
		if !busy[c.Host.String()] {
			out = append(out, c)
		}
	}
	return out
}

func firstNames(p *schedule.Proposal) string {
	var names []string
	for _, c := range p.Candidates[:min(3, len(p.Candidates))] {
		names = append(names, c.ServiceHost)
	}
	text := strings.Join(names, ", ")
	return strings.ToValidUTF8(text[:min(len(text), 500)], "")
}
