package schedule

import (
	"cmp"
	"strconv"
	"strings"

	"cellgate/internal/python"
)

// versionBound is one comparison with a version, such as >=2.0.
type versionBound struct {
	op string
	to strictVersion
}

// strictVersion is N.N or N.N.N, with the suffix aN or bN for a pre-release.
type strictVersion struct {
	n      [3]uint64
	pre    byte // a, b; 0 for none
	preNum uint64
}

// readVersionBounds parses ">=1.0,<2.0" (distutils.versionpredicate).
func readVersionBounds(s string) ([]versionBound, *python.Exception) {
	var bounds []versionBound
	for part := range strings.SplitSeq(s, ",") {
		text := python.Strip(part)
		var op string
		for _, o := range []string{"<=", ">=", "!=", "==", "<", ">"} {
			if strings.HasPrefix(text, o) {
				op = o
				break
			}
		}
		version := python.Strip(text[len(op):])
		if op == "" || version == "" || strings.ContainsFunc(version, python.Space) {
			return nil, python.ValueError("bad package restriction syntax: " + python.Quote(part))
		}
		v, err := readVersion(version)
		if err != nil {
			return nil, err
		}
		bounds = append(bounds, versionBound{op, v})
	}
	return bounds, nil
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func readVersion(s string) (strictVersion, *python.Exception) {
	bad := python.ValueError("invalid version number '" + s + "'")
	var v strictVersion
	body := s
	if i := strings.IndexAny(s, "ab"); i >= 0 {
		n, err := strconv.ParseUint(s[i+1:], 10, 63)
		if err != nil || !digit(s[i+1]) {
			return v, bad
		}
		body, v.pre, v.preNum = s[:i], s[i], n
	}
	fields := strings.Split(body, ".")
	if len(fields) < 2 || len(fields) > 3 {
		return v, bad
	}
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 63)
		if err != nil || !digit(f[0]) {
			return v, bad
		}
		v.n[i] = n
	}
	return v, nil
}

func (v *strictVersion) compare(o *strictVersion) int {
	for i := range v.n {
		if c := cmp.Compare(v.n[i], o.n[i]); c != 0 {
			return c
		}
	}
	switch {
	case v.pre == o.pre:
		return cmp.Compare(v.preNum, o.preNum)
	case v.pre == 0:
		return 1
	case o.pre == 0:
		return -1
	}
	return cmp.Compare(v.pre, o.pre)
}

// inBounds reports whether a version is within all bounds.
func inBounds(version string, bounds []versionBound) (bool, *python.Exception) {
	v, err := readVersion(version)
	if err != nil {
		return false, err
	}
	for i := range bounds {
		c := v.compare(&bounds[i].to)
		ok := false
		switch bounds[i].op {
		case "<":
			ok = c < 0
		case "<=":
			ok = c <= 0
		case ">":
			ok = c > 0
		case ">=":
			ok = c >= 0
		case "==":
			ok = c == 0
		case "!=":
			ok = c != 0
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// versionText converts Nova's number of a version: 6002003 is 6.2.3.
func versionText(n int64) string {
	var parts []string
	for ; n > 0; n /= 1000 {
		parts = append([]string{strconv.FormatInt(n%1000, 10)}, parts...)
	}
	return strings.Join(parts, ".")
}

// VersionPredicate says why s is not a list of bounds for img_hv_requested_version; "" if it is one.
func VersionPredicate(s string) (problem string) {
	if _, err := readVersionBounds(s); err != nil {
		return err.Message
	}
	return ""
}
