package python

import (
	"net/netip"
	"strconv"
	"strings"
)

// Address parses an IP address as netaddr.IPAddress does. IPv4 addresses follow inet_aton: numbers may be
// octal or hexadecimal, and the last number may stand for several bytes.
func Address(s string) (netip.Addr, bool) {
	if ip, ok := inetAton(s); ok {
		return ip, true
	}
	ip, err := netip.ParseAddr(s)
	return ip, err == nil && ip.Zone() == "" && strings.Contains(s, ":")
}

func inetAton(s string) (netip.Addr, bool) {
	// Text after a space is ignored.
	if i := strings.IndexAny(s, " \t\n\r\v\f"); i > 0 {
		s = s[:i]
	}
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var n uint64
	for i, p := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (4 - i)
		}
		base := 10
		if len(p) > 1 && p[0] == '0' {
			base = 8
			if p[1] == 'x' || p[1] == 'X' {
				base, p = 16, p[2:]
			}
		}
		x, err := strconv.ParseUint(p, base, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		n = n<<bits | x
	}
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), true
}
