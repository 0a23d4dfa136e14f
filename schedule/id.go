package schedule

import (
	"encoding/hex"
	"fmt"
)

// ID is a uuid: of a host, an instance, a group or a provider.
type ID [16]byte

// ParseID reads the canonical text form (8-4-4-4-12 hex digits, any case) or 32
// hex digits.
func ParseID(s string) (ID, error) {
	var id ID
	h := make([]byte, 0, 32)
	switch len(s) {
	case 32:
		h = append(h, s...)
	case 36:
		if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
			return id, fmt.Errorf("%q is not a uuid", s)
		}
		h = append(h, s[0:8]...)
		h = append(h, s[9:13]...)
		h = append(h, s[14:18]...)
		h = append(h, s[19:23]...)
		h = append(h, s[24:36]...)
	default:
		return id, fmt.Errorf("%q is not a uuid", s)
	}
	if _, err := hex.Decode(id[:], h); err != nil {
		return ID{}, fmt.Errorf("%q is not a uuid", s)
	}
	return id, nil
}

// String gives the canonical text, in lower case.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}
