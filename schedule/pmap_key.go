package schedule

import "encoding/binary"

func (id ID) hash() uint64 {
	return mix64(binary.LittleEndian.Uint64(id[:8]) ^ mix64(binary.LittleEndian.Uint64(id[8:])))
}

// name is a string as a key: a trait, an aggregate, a host name.
type name string

// hash is FNV-1a, mixed.
func (s name) hash() uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix64(h)
}

// number is a slot's or a chunk's number as a key.
type number uint32

func (n number) hash() uint64 { return mix64(uint64(n)) }

// mix64 is splitmix64 of one step.
func mix64(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
