package schedule

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strings"

	"cellgate/internal/python"
)

// CIDRFilter keeps hosts whose address is in the same network as another: the hints build_near_host_ip and cidr, /24
// by default (filters/affinity_filter.py).
const CIDRFilter = "SimpleCIDRAffinityFilter"

func (s *scan) cidrFilter() {
	near := s.nova.hint("build_near_host_ip")
	if len(near) == 0 || onlyEmpty(near) {
		return
	}
	cidr := s.nova.hint("cidr")
	if cidr == nil {
		cidr = []string{"/24"}
	}
	network, err := readNetwork(near, cidr)
	s.perHost(CIDRFilter, func(r *row) (bool, *python.Exception) {
		if err != nil {
			return false, err
		}
		f := r.host.Facts
		if f == nil || f.Unfilled || !f.ip.IsValid() {
			return false, python.NewException("AddrFormatError", "failed to detect a valid IP address from None")
		}
		return network.Contains(f.ip), nil
	})
}

// readNetwork joins the two hints and parses them as netaddr.IPNetwork does. Host bits may be set, an IPv4 address
// may omit its last numbers, and the length may be a mask.
func readNetwork(near, cidr []string) (netip.Prefix, *python.Exception) {
	for i, hint := range [][]string{near, cidr} {
		if len(hint) != 1 {
			return netip.Prefix{}, python.NewException("TypeError", fmt.Sprintf("sequence item %d: expected str instance, CoercedList found", i))
		}
	}
	s := near[0] + cidr[0]
	bad := python.NewException("AddrFormatError", "invalid IPNetwork "+s)
	host, length, has := strings.Cut(s, "/")
	ip, ok := readAddress(host)
	if !ok {
		return netip.Prefix{}, bad
	}
	n := ip.BitLen()
	if has {
		if _, number := python.Int(length); !number && strings.Contains(length, "/") {
			return netip.Prefix{}, python.ValueError("IPAddress() does not support netmasks or subnet prefixes! See documentation for details.")
		}
		if n, ok = readLength(length, ip.BitLen()); !ok {
			return netip.Prefix{}, bad
		}
	}
	network, err := ip.Prefix(n)
	if err != nil {
		return netip.Prefix{}, bad
	}
	return network, nil
}

// readAddress parses an address of a network. In IPv4 addresses, numbers may have leading spaces and zeros.
func readAddress(s string) (netip.Addr, bool) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip, ip.Zone() == ""
	}
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var b [4]byte
	for i, p := range parts {
		n, ok := python.Int(p)
		if !ok || n < 0 || n > 255 {
			return netip.Addr{}, false
		}
		b[i] = byte(n)
	}
	return netip.AddrFrom4(b), true
}

// readLength parses a prefix length: a number, a netmask or a host mask.
func readLength(s string, most int) (int, bool) {
	if n, ok := python.Int(s); ok {
		return int(n), n >= 0 && n <= int64(most)
	}
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.BitLen() != most {
		return 0, false
	}
	ones, lead, trail := 0, 0, 0
	for i, b := range ip.AsSlice() {
		if lead == 8*i {
			lead += bits.LeadingZeros8(^b)
		}
		if n := bits.TrailingZeros8(^b); n == 8 {
			trail += 8
		} else {
			trail = n
		}
		ones += bits.OnesCount8(b)
	}
	switch ones {
	case lead:
		return ones, true
	case trail:
		return most - ones, true
	}
	return 0, false
}
