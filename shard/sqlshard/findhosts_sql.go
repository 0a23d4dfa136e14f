package sqlshard

import (
	"slices"
	"strconv"
	"strings"

	"cellgate/shard"
)

// hostFilter is a HostQuery as one statement. Values are parameters, and the text depends only on their number, so
// the statement is prepared once for requests of one form. All conditions are on a host's rows in hosts and
// host_usages.
type hostFilter struct {
	wheres strings.Builder
	args   []any
}

func (f *hostFilter) sql() string {
	return `SELECT h.host_uuid FROM hosts h JOIN host_usages u ON u.host_uuid = h.host_uuid
WHERE NOT h.disabled
AND NOT u.withheld` + f.wheres.String() + ` ORDER BY h.host_uuid`
}

func (f *hostFilter) where(condition string) {
	f.wheres.WriteString("\nAND " + condition)
}

func (f *hostFilter) param(v any, as string) string {
	f.args = append(f.args, v)
	return "$" + strconv.Itoa(len(f.args)) + "::" + as
}

func (f *hostFilter) text(s string) string  { return f.param(s, "text") }
func (f *hostFilter) number(n int64) string { return f.param(n, "int8") }

// list leaves out names that no row can have.
func (f *hostFilter) list(names []string) string {
	return f.param(slices.DeleteFunc(slices.Clone(names), unkeepable), "text[]")
}

func filterOf(q *shard.HostQuery) *hostFilter {
	f := &hostFilter{}
	if q.ServiceHost != "" {
		f.where(`h.service_host = ` + f.text(q.ServiceHost))
	}
	if q.NodeName != "" {
		f.where(`h.node_name = ` + f.text(q.NodeName))
	}
	for _, t := range q.Required {
		f.where(`h.traits ? ` + f.text(t))
	}
	for _, t := range q.Somewhere {
		name := f.text(t)
		f.where(`(h.traits ? ` + name + ` OR h.child_traits ? ` + name + `)`)
	}
	for _, set := range q.AnyOf {
		f.where(`h.traits ?| ` + f.list(set))
	}
	if len(q.Forbidden) > 0 {
		f.where(`NOT h.traits ?| ` + f.list(q.Forbidden))
	}
	for _, set := range q.MemberOf {
		f.where(`h.aggregates ?| ` + f.list(set))
	}
	if len(q.ForbiddenAggregates) > 0 {
		f.where(`NOT h.aggregates ?| ` + f.list(q.ForbiddenAggregates))
	}
	f.zone(q)
	for _, a := range q.Resources {
		f.resource(a)
	}
	return f
}

// resource requires an amount, by the rule of shard.Inventory.
func (f *hostFilter) resource(a shard.AmountOf) {
	class, n := f.text(a.ResourceClass), f.number(a.Amount)
	room := strings.NewReplacer("<class>", class, "<n>", n).Replace(
		`<n> + coalesce((nullif(u.used, '')::jsonb -> h.host_uuid ->> <class>)::int8, 0) <= (h.inventories -> <class> ->> 0)::int8
AND <n> <= (h.inventories -> <class> ->> 1)::int8 AND <n> >= (h.inventories -> <class> ->> 2)::int8
AND <n> % (h.inventories -> <class> ->> 3)::int8 = 0`)
	if a.OrChild {
		room = `(` + room + ` OR h.child_classes ? ` + class + `)`
	}
	f.where(room)
}

// zone requires one of the host's zones, or that it has none. A name that no row can have occurs only with Unzoned
// (nothingHas).
func (f *hostFilter) zone(q *shard.HostQuery) {
	const unzoned = `h.zones = '[]'::jsonb`
	switch {
	case q.Zone == "":
	case !keepable(q.Zone):
		f.where(unzoned)
	case q.Unzoned:
		f.where(`(h.zones ? ` + f.text(q.Zone) + ` OR ` + unzoned + `)`)
	default:
		f.where(`h.zones ? ` + f.text(q.Zone))
	}
}
