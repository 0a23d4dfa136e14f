package hardware

import "math/bits"

// cpuSet is a set of a host's CPUs, bit by bit.
type cpuSet []uint64

// maxCPU bounds the number of a CPU.
const maxCPU = 1 << 14

func (s cpuSet) has(cpu int) bool { return cpu/64 < len(s) && s[cpu/64]>>(cpu%64)&1 != 0 }

func (s cpuSet) with(cpu int) cpuSet {
	for len(s) <= cpu/64 {
		s = append(s, 0)
	}
	s[cpu/64] |= 1 << (cpu % 64)
	return s
}

func (s cpuSet) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// without gives the CPUs of s that are not in o.
func (s cpuSet) without(o cpuSet) cpuSet {
	out := make(cpuSet, len(s))
	for i, w := range s {
		if i < len(o) {
			w &^= o[i]
		}
		out[i] = w
	}
	return out
}

func (s cpuSet) equal(o cpuSet) bool {
	for i := range max(len(s), len(o)) {
		var a, b uint64
		if i < len(s) {
			a = s[i]
		}
		if i < len(o) {
			b = o[i]
		}
		if a != b {
			return false
		}
	}
	return true
}
