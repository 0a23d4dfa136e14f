package nova

import (
	"fmt"
	"strings"

	"cellgate/internal/python"
)

// cpuSet is a set of CPU numbers.
type cpuSet map[int64]bool

// maxMask bounds the bytes of a mask; together with maxGuestCPUs it bounds the parsed set.
const maxMask = 4096

// cpusOf parses a mask of a guest's CPUs 0 to n-1, as cpuSpec does. A mask that begins with ^ is removed from all
// CPUs. problem says what is wrong with it.
func cpusOf(mask string, n int64) (cpus cpuSet, problem string) {
	all := strings.HasPrefix(python.Strip(mask), "^")
	cpus, problem = cpuSpec(mask, n, all)
	if problem == "" {
		problem = cpus.beyond(n)
	}
	if problem != "" {
		return nil, problem
	}
	return cpus, ""
}

// beyond says so if some CPU is not 0 to n-1.
func (c cpuSet) beyond(n int64) string {
	for cpu := range c {
		if cpu >= n {
			return fmt.Sprintf("has CPUs beyond the flavor's %d", n)
		}
	}
	return ""
}

// cpuSpec parses numbers and ranges separated by commas; ^ removes a number or a range (nova/virt/hardware.py,
// parse_cpu_spec). With all, the set begins with 0 to n-1. If the spec has CPUs beyond n-1, the set has at least one
// of them, but not all.
func cpuSpec(spec string, n int64, all bool) (cpus cpuSet, problem string) {
	switch {
	case n > maxGuestCPUs:
		return nil, fmt.Sprintf("is for a flavor of %d CPUs, masks are read for at most %d", n, maxGuestCPUs)
	case len(spec) > maxMask:
		return nil, fmt.Sprintf("has %d bytes, the most is %d", len(spec), maxMask)
	}
	in, out := cpuSet{}, cpuSet{}
	if all {
		for c := range n {
			in[c] = true
		}
	}
	for rule := range strings.SplitSeq(spec, ",") {
		rule = python.Strip(rule)
		bare, excluded := strings.CutPrefix(rule, "^")
		if rule == "" {
			continue
		}
		to := in
		if excluded {
			to = out
		}
		from, until, isRange := strings.Cut(bare, "-")
		if !isRange {
			until = from
		}
		first, okFirst := python.Int(python.Strip(from))
		last, okLast := python.Int(python.Strip(until))
		if !okFirst || !okLast || first < 0 || first > last {
			return nil, fmt.Sprintf("%q is neither a CPU nor a range of them", shorten(rule))
		}
		// Of the CPUs beyond the guest's, one is enough for the refusal.
		for c := first; c <= min(last, n); c++ {
			to[c] = true
		}
		if first > n {
			to[first] = true
		}
	}
	for c := range out {
		delete(in, c)
	}
	return in, ""
}
