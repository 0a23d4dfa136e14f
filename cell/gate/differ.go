package gate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// GatewaysDiffer says in which required_version, and in which service_down_time, the gateways of a
// gate differ, in words that name them; "" where they do not. The strictest counts: the highest
// version is required, and a service is up that is so by the longest service_down_time.
func GatewaysDiffer(readers []*cellgatev1.GateReader) (required, downTime string) {
	versions, times := map[int32][]string{}, map[time.Duration][]string{}
	for _, r := range readers {
		if r.RequiredVersion != nil {
			versions[r.GetRequiredVersion()] = append(versions[r.GetRequiredVersion()], r.GetGateway())
		}
		if d := r.GetServiceDownTime().AsDuration(); d > 0 {
			times[d] = append(times[d], r.GetGateway())
		}
	}
	required = listByValue(versions, func(n int32, one bool) string {
		verb := "require"
		if one {
			verb = "requires"
		}
		if n <= 0 {
			return verb + " none"
		}
		return fmt.Sprintf("%s %d", verb, n)
	})
	downTime = listByValue(times, func(d time.Duration, one bool) string {
		if one {
			return "has " + d.String()
		}
		return "have " + d.String()
	})
	return required, downTime
}

// listByValue names gateways by their values, the highest first: the first gateway of each, and how
// many have the same. "" for fewer than two values.
func listByValue[T cmp.Ordered](by map[T][]string, say func(v T, one bool) string) string {
	const mostValues = 4
	values := slices.Sorted(maps.Keys(by))
	if len(values) < 2 {
		return ""
	}
	slices.Reverse(values)
	var parts []string
	for i, v := range values {
		if i >= mostValues-1 && i < len(values)-1 {
			continue // the lowest is named
		}
		name := "gateway " + slices.Min(by[v])
		if n := len(by[v]) - 1; n > 0 {
			name += fmt.Sprintf(" and %d more", n)
		}
		parts = append(parts, name+" "+say(v, len(by[v]) == 1))
	}
	return strings.Join(parts, ", ")
}
