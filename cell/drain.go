package cell

import (
	"cmp"
	"slices"
	"strings"

	"cellgate/cell/replica"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// drained finds the hosts that names stand for, ordered by the names, then by service host and uuid. A
// name is a uuid, a service host (without case) or a node.
func (c *Cell) drained(names []string) []*cellgatev1.DrainedHost {
	if len(names) == 0 {
		return nil
	}
	// The positions of each name: as given, and in lower case or as a canonical uuid.
	exactly, alike := map[string]int{}, map[string][]int{}
	for i, name := range names {
		key := strings.ToLower(name)
		if id, err := schedule.ParseID(name); err == nil {
			key = id.String()
		}
		exactly[name], alike[key] = i, append(alike[key], i)
	}
	type match struct {
		at  []int
		row *replica.HostRow
	}
	var found []match
	for _, row := range c.rows.HostsInService() {
		h := row.Host
		at := slices.Concat(alike[h.UUID], alike[strings.ToLower(h.ServiceHost)])
		if i, ok := exactly[h.NodeName]; ok {
			at = append(at, i)
		}
		if len(at) > 0 {
			slices.Sort(at)
			found = append(found, match{slices.Compact(at), row})
		}
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(cmp.Compare(a.at[0], b.at[0]), compareHosts(a.row, b.row)) })
	out := make([]*cellgatev1.DrainedHost, len(found))
	for i, m := range found {
		h := m.row.Host
		out[i] = &cellgatev1.DrainedHost{Cell: c.cfg.Name, HostUuid: h.UUID, ServiceHost: h.ServiceHost, Nodename: h.NodeName}
		for _, k := range m.at {
			out[i].Asked = append(out[i].Asked, names[k])
		}
	}
	return out
}
