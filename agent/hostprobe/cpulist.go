package hostprobe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU is the highest CPU number that cells accept.
const maxCPU = 1 << 14

// cpuSet is a set of CPUs in ascending order.
type cpuSet []int

// parseCPUList parses the kernel's form of a set, "0-3,8\n"; "" is the empty set.
func parseCPUList(text string) (cpuSet, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var all cpuSet
	for part := range strings.SplitSeq(text, ",") {
		from, until, err := parseRange(part)
		if err != nil {
			return nil, err
		}
		for cpu := from; cpu <= until; cpu++ {
			all = append(all, cpu)
		}
		if len(all) > 2*maxCPU {
			return nil, fmt.Errorf("%.40q… names CPUs again and again", text)
		}
	}
	return all.sorted(), nil
}

// parseCPUSpec parses Nova's form of a set, "0-3,^2,8" (nova/virt/hardware.py, parse_cpu_spec): it
// ignores white space and empty parts, and ^ excludes CPUs.
func parseCPUSpec(spec string) (cpuSet, error) {
	in, out := map[int]bool{}, map[int]bool{}
	for part := range strings.SplitSeq(spec, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		to := in
		if rest, excludes := strings.CutPrefix(part, "^"); excludes {
			to, part = out, rest
		}
		from, until, err := parseRange(part)
		if err != nil {
			return nil, err
		}
		for cpu := from; cpu <= until; cpu++ {
			to[cpu] = true
		}
	}
	var all cpuSet
	for cpu := range in {
		if !out[cpu] {
			all = append(all, cpu)
		}
	}
	return all.sorted(), nil
}

// parseRange reads "3" or "0-3".
func parseRange(text string) (from, until int, err error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, errFrom := strconv.Atoi(strings.TrimSpace(first))
	until, errUntil := strconv.Atoi(strings.TrimSpace(last))
	switch {
	case errFrom != nil || errUntil != nil || from < 0:
		return 0, 0, fmt.Errorf("%.40q is no CPU and no range of CPUs", text)
	case until < from:
		return 0, 0, fmt.Errorf("%q ends before it begins", text)
	case until > maxCPU:
		return 0, 0, fmt.Errorf("%q is above CPU %d", text, maxCPU)
	}
	return from, until, nil
}

func (s cpuSet) sorted() cpuSet {
	slices.Sort(s)
	return slices.Compact(s)
}

func (s cpuSet) has(cpu int) bool {
	_, found := slices.BinarySearch(s, cpu)
	return found
}

// and returns the CPUs in both sets.
func (s cpuSet) and(other cpuSet) cpuSet {
	var both cpuSet
	for _, cpu := range s {
		if other.has(cpu) {
			both = append(both, cpu)
		}
	}
	return both
}

// without gives the CPUs of s that are not in other.
func (s cpuSet) without(other cpuSet) cpuSet {
	var rest cpuSet
	for _, cpu := range s {
		if !other.has(cpu) {
			rest = append(rest, cpu)
		}
	}
	return rest
}

// or returns the CPUs in either set.
func (s cpuSet) or(other cpuSet) cpuSet {
	return append(slices.Clone(s), other...).sorted()
}

// String formats the set as the kernel does.
func (s cpuSet) String() string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return b.String()
}

// list is the set for JSON: never null.
func (s cpuSet) list() []int {
	if s == nil {
		return []int{}
	}
	return s
}
