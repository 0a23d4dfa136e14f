package placement

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parameters are the parameters of a query string, in its order.
type parameters []parameter

type parameter struct{ name, value string }

func parseQuery(raw string) (parameters, error) {
	var out parameters
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		p := parameter{unescape(name), unescape(value)}
		if !utf8.ValidString(p.name) || !utf8.ValidString(p.value) {
			return nil, badRequest("Invalid query string parameters: they are not UTF-8")
		}
		out = append(out, p)
	}
	return out, nil
}

// unescape returns a text with invalid escapes unchanged, as Python does.
func unescape(s string) string {
	if u, err := url.QueryUnescape(s); err == nil {
		return u
	}
	return s
}

func (p parameters) all(name string) []string {
	var out []string
	for _, one := range p {
		if one.name == name {
			out = append(out, one.value)
		}
	}
	return out
}

func (p parameters) has(name string) bool {
	return slices.ContainsFunc(p, func(one parameter) bool { return one.name == name })
}

// last gives the last value of a parameter, or "".
func (p parameters) last(name string) string {
	values := p.all(name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (p parameters) check(s *schema) error {
	values := map[string]any{}
	for _, one := range p {
		values[one.name] = one.value
	}
	if bad := s.check(values); bad != nil {
		return badRequest("Invalid query string parameters: %v", bad)
	}
	return nil
}

// parseResources reads VCPU:2,MEMORY_MB:1024.
func parseResources(value string) (map[string]int64, error) {
	const form = "Badly formed resources parameter. Expected resources query string parameter in form: ?resources=VCPU:2,MEMORY_MB:1024. Got: "
	if strings.TrimSpace(value) == "" {
		return nil, badRequest("%sempty string.", form)
	}
	out := map[string]int64{}
	for one := range strings.SplitSeq(value, ",") {
		class, text, ok := strings.Cut(one, ":")
		if !ok || strings.Contains(text, ":") {
			return nil, badRequest("%s%s.", form, one)
		}
		amount, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // ParseInt gives the nearest number
		}
		if err != nil {
			return nil, badRequest("Requested resource %s expected positive integer amount. Got: %s.", class, text)
		}
		if amount < 1 {
			return nil, badRequest("Requested resource %s requires amount >= 1. Got: %d.", class, amount)
		}
		out[class] = min(amount, mostAsked)
	}
	return out, nil
}

// mostAsked exceeds what any provider has, and is small enough for sums.
const mostAsked = 1 << 62

const (
	forbiddenTraitsSince version = 22
	anyTraitsSince       version = 39
)

// parseTraits reads T1,!T2 or in:T1,T2.
func parseTraits(value string, allowForbidden, allowAny bool) (NameFilter, error) {
	const wrong = "Invalid query string parameters: "
	var out NameFilter
	if list, ok := strings.CutPrefix(value, "in:"); ok {
		if !allowAny {
			return out, badRequest(wrong+"The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. Got: %s", value)
		}
		names := trimmed(list)
		if slices.Contains(names, "") {
			return out, badRequest(wrong+"Expected 'required' parameter value of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: %s", value)
		}
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "!") }) {
			return out, badRequest(wrong+"The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. Got: %s", value)
		}
		slices.Sort(names)
		out.AnyOf = [][]string{slices.Compact(names)}
		return out, nil
	}
	for _, name := range trimmed(value) {
		bare := strings.TrimLeft(name, "!")
		if bare == "" {
			form := "HW_CPU_X86_VMX,CUSTOM_MAGIC"
			if allowForbidden {
				form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC"
			}
			return out, badRequest(wrong+"Expected 'required' parameter value of the form: %s. Got an empty trait in: %s", form, value)
		}
		if bare != name {
			out.Forbidden = append(out.Forbidden, bare)
		} else {
			out.AnyOf = append(out.AnyOf, []string{name})
		}
	}
	if len(out.Forbidden) > 0 && !allowForbidden {
		return out, badRequest(wrong+"Expected 'required' parameter value of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: %s", value)
	}
	return out, nil
}

func trimmed(list string) []string {
	names := strings.Split(list, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// traits reads the parameters required of one group. Before 1.39 only the last one counts.
func (c *call) traits(suffix string) (NameFilter, error) {
	values := c.query.all("required" + suffix)
	if c.version < anyTraitsSince && len(values) > 1 {
		values = values[len(values)-1:]
	}
	var out NameFilter
	for _, value := range values {
		one, err := parseTraits(value, c.version >= forbiddenTraitsSince, c.version >= anyTraitsSince)
		if err != nil {
			return out, err
		}
		out.AnyOf = append(out.AnyOf, one.AnyOf...)
		out.Forbidden = append(out.Forbidden, one.Forbidden...)
	}
	return out, nil
}

// memberOf reads the parameters member_of of one group.
func (c *call) memberOf(suffix string) (NameFilter, error) {
	var out NameFilter
	values := c.query.all("member_of" + suffix)
	if c.version < 24 && len(values) > 1 {
		return out, badRequest("Multiple member_of%s parameters are not supported", suffix)
	}
	for _, value := range values {
		list, forbidden := strings.CutPrefix(value, "!")
		list, prefixed := strings.CutPrefix(list, "in:")
		if strings.Contains(value, ",") && !prefixed {
			return out, badRequest("Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid microversion. Got: %s", value)
		}
		names := []string{list}
		if prefixed {
			names = strings.Split(list, ",")
		}
		for i, name := range names {
			canonical, ok := CanonicalUUID(name)
			if !ok {
				return out, badRequest("Invalid query string parameters: Expected 'member_of' parameter to contain valid UUID(s). Got: %s", name)
			}
			names[i] = canonical
		}
		if !forbidden {
			out.AnyOf = append(out.AnyOf, names)
			continue
		}
		if c.version < 32 {
			return out, badRequest("Forbidden member_of%s parameters are not supported in the specified microversion", suffix)
		}
		out.Forbidden = append(out.Forbidden, names...)
	}
	return out, nil
}

// namesIn lists all names in a filter.
func namesIn(f NameFilter) []string { return append(slices.Concat(f.AnyOf...), f.Forbidden...) }

// integerOf gives a checked integer; -1, which is no valid generation, if it is too large.
func integerOf(v any) int64 {
	n, ok := wholeNumber(v)
	if !ok || !n.IsInt64() {
		return -1
	}
	return n.Int64()
}

func numberOf(v any) float64 {
	n, _ := v.(json.Number)
	f, _ := n.Float64() // the schema has checked it
	return f
}

// CanonicalUUID gives a uuid in lower case with dashes. It accepts the forms that Placement (oslo's is_uuid_like)
// accepts: without dashes, in braces, after urn:uuid:.
func CanonicalUUID(s string) (string, bool) {
	hex := strings.ReplaceAll(s, "urn:", "")
	hex = strings.ReplaceAll(hex, "uuid:", "")
	hex = strings.ToLower(strings.ReplaceAll(strings.Trim(hex, "{}"), "-", ""))
	if len(hex) != 32 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", false
	}
	return hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:], true
}
