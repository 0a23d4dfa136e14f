package sqlshard

import (
	"slices"
	"strconv"
	"strings"

	"cellgate/shard"
)

// hostFilter is a HostQuery as one statement: what it asks for is parameters, and how
// many of each there are makes its text, so that it is prepared once for requests of
// one form. Conditions are joins and (NOT) EXISTS with equalities, which both servers
// turn into joins of whole tables.
type hostFilter struct {
	joins, wheres strings.Builder
	args          []any
}

func (f *hostFilter) sql() string {
	return `SELECT h.host_uuid FROM hosts h JOIN host_usages u ON u.host_uuid = h.host_uuid` + f.joins.String() + `
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

// list leaves out what no row can have.
func (f *hostFilter) list(names []string) string {
	return f.param(slices.DeleteFunc(slices.Clone(names), unkeepable), "text[]")
}

func filterOf(q *shard.HostQuery) *hostFilter {
	f := &hostFilter{}
	for i, a := range q.Resources {
		f.resource(strconv.Itoa(i), a, q.Limit <= 0)
	}
	for _, t := range q.Required {
		f.where(`EXISTS (` + rootTraits + `= ` + f.text(t) + `)`)
	}
	for _, t := range q.Somewhere {
		f.where(`EXISTS (` + hostTraits + `= ` + f.text(t) + `)`)
	}
	for _, set := range q.AnyOf {
		f.where(`EXISTS (` + rootTraits + `= ANY(` + f.list(set) + `))`)
	}
	if len(q.Forbidden) > 0 {
		f.where(`NOT EXISTS (` + rootTraits + `= ANY(` + f.list(q.Forbidden) + `))`)
	}
	for _, set := range q.MemberOf {
		f.where(`EXISTS (` + aggregatesOf + `= ANY(` + f.list(set) + `))`)
	}
	if len(q.ForbiddenAggregates) > 0 {
		f.where(`NOT EXISTS (` + aggregatesOf + `= ANY(` + f.list(q.ForbiddenAggregates) + `))`)
	}
	f.zone(q)
	if q.ServiceHost != "" {
		f.where(`h.service_host = ` + f.text(q.ServiceHost))
	}
	if q.NodeName != "" {
		f.where(`h.node_name = ` + f.text(q.NodeName))
	}
	return f
}

const (
	hostTraits   = `SELECT 1 FROM provider_traits t WHERE t.host_uuid = h.host_uuid AND t.trait `
	rootTraits   = `SELECT 1 FROM provider_traits t WHERE t.host_uuid = h.host_uuid AND t.provider_uuid = h.host_uuid AND t.trait `
	aggregatesOf = `SELECT 1 FROM host_aggregates a WHERE a.host_uuid = h.host_uuid AND a.aggregate_uuid `
)

// resource asks for an amount, as shard.Inventory has it. Sums and products are
// floats: they hold whole numbers up to 2^53 exactly, and nothing overflows. A ratio
// of 1e200 makes any capacity larger than all amounts; PostgreSQL does not multiply
// beyond 1e308.
//
// Whether a child has the class is found out for all hosts at once when the tables are
// read whole, else host by host.
func (f *hostFilter) resource(i string, a shard.AmountOf, whole bool) {
	class, n := f.text(a.ResourceClass), f.number(a.Amount)
	fill := func(sql string) string {
		return strings.NewReplacer("<i>", "i"+i, "<k>", "k"+i, "<class>", class, "<n>", n).Replace(sql)
	}
	const (
		join = ` JOIN inventories <i> ON <i>.host_uuid = h.host_uuid AND <i>.provider_uuid = h.host_uuid AND <i>.resource_class = <class>`
		room = `<n> >= <i>.min_unit AND <n> <= <i>.max_unit AND <n> % <i>.step_size = 0
AND coalesce((nullif(u.used, '')::jsonb -> h.host_uuid ->> <class>)::float8, 0) + <n>::float8 + <i>.unaccounted::float8
  <= (<i>.total - <i>.reserved)::float8 * least(<i>.allocation_ratio, 1e200::float8)`
		children = `FROM inventories c WHERE c.provider_uuid <> c.host_uuid AND c.resource_class = <class>`
	)
	switch {
	case !a.OrChild:
		f.joins.WriteString(fill("\n" + join[1:]))
		f.where(fill(room))
	case whole:
		f.joins.WriteString(fill("\nLEFT" + join + "\nLEFT JOIN (SELECT DISTINCT c.host_uuid " + children + `) <k> ON <k>.host_uuid = h.host_uuid`))
		f.where(fill(`(<k>.host_uuid IS NOT NULL OR ` + room + `)`))
	default:
		f.joins.WriteString(fill("\nLEFT" + join))
		f.where(fill(`(` + room + ` OR EXISTS (SELECT 1 ` + children + ` AND c.host_uuid = h.host_uuid))`))
	}
}

// spaces is what strings.TrimSpace cuts.
const spaces = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

// zone asks for the host's zones: whether any of them is the one, NULL when it is in
// none. Metadata that name no zone by an empty text name one all the same: a comma is
// added, so that they have a row. Read whole, the aggregates are grouped once; host by
// host, each time.
func (f *hostFilter) zone(q *shard.HostQuery) {
	if q.Zone == "" {
		return
	}
	zone := q.Zone
	if !keepable(zone) {
		zone = " " // is no zone's name, once space was cut
	}
	is := `bool_or(btrim(zone, ` + f.text(spaces) + `) = ` + f.text(zone) + `)`
	const zones = `unnest(string_to_array((nullif(metadata, '')::jsonb ->> 'availability_zone') || ',', ',')) AS zone FROM host_aggregates`
	here := `z.here`
	if q.Limit > 0 {
		here = `(SELECT ` + is + ` FROM (SELECT ` + zones + ` a WHERE a.host_uuid = h.host_uuid) z)`
	} else {
		f.joins.WriteString(`
LEFT JOIN (SELECT host_uuid, ` + is + ` AS here FROM (SELECT host_uuid, ` + zones + `) z GROUP BY host_uuid) z ON z.host_uuid = h.host_uuid`)
	}
	f.where(`coalesce(` + here + `, ` + f.param(q.Unzoned, "bool") + `)`)
}
