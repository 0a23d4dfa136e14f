package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/importer"
	"cellgate/gateway/legacy"
	"cellgate/internal/config"
	"cellgate/internal/novaconf"
	"cellgate/internal/novarelease"
)

// remedies are what to do about rows that are no hosts, and whether they stand in the
// way: a compute that runs without one does.
var remedies = map[legacy.Reason]struct{ status, do string }{
	legacy.NoHost:          {warned, "delete the row, it is from before Kilo; or start its nova-compute once"},
	legacy.NoService:       {warned, "start its nova-compute, or delete the row"},
	legacy.MappedElsewhere: {unhealthy, "nova-manage cell_v2 delete_host --cell_uuid UUID --host HOST where it does not belong, then discover_hosts"},
	legacy.Unmapped:        {unhealthy, "nova-manage cell_v2 discover_hosts"},
	legacy.BadUUID:         {unhealthy, "restart its nova-compute, which gives the row a uuid of its own"},
	legacy.TooLarge:        {unhealthy, "see what fills the row's texts"},
	legacy.NoNode:          {unhealthy, "delete the row, or restart its nova-compute"},
	legacy.NullColumn:      {unhealthy, "restart its nova-compute, which fills the column"},
	legacy.NegativeTotal:   {unhealthy, "restart its nova-compute, which fills the column"},
	legacy.NotReported:     {warned, "wait until its nova-compute has reported, or restart it"},
	legacy.NotImportable:   {unhealthy, "correct what is named; where its nova-compute writes it, restart that"},
	legacy.Unreadable:      {unhealthy, "restart its nova-compute, which writes the column anew; Nova fails whole requests on it"},
}

// remedyOf is what to do about a row that is no host.
func remedyOf(l *legacy.LeftOut) string {
	if strings.Contains(l.Detail, "compared with case") {
		return "give compute_nodes.host and services.host the same case: nova-compute's [DEFAULT] host"
	}
	return remedies[l.Reason].do
}

// checkLeftOut names the rows of compute_nodes that are no hosts.
func checkLeftOut(u *upgrade) (out results) {
	for i := range u.rows.LeftOut {
		l := &u.rows.LeftOut[i]
		what := strings.Join(strings.Fields(fmt.Sprintf("is no host (%s): %s %s %s", l.Reason, l.Host, l.Column, l.Detail)), " ")
		out = append(out, diagnose(remedies[l.Reason].status, what, remedyOf(l)).of(fmt.Sprintf("row %d of compute_nodes", l.NodeID)).in("compute_nodes: "+string(l.Reason))...)
	}
	slices.SortStableFunc(out, func(a, b result) int { return cmp.Compare(a.group, b.group) })
	return out
}

// checkAggregates names those without a uuid of their own.
func checkAggregates(u *upgrade) (out results) {
	for _, a := range u.rows.NamelessAggregates() {
		out = append(out, diagnose(noted, fmt.Sprintf("%q: its uuid %s; %s stands for it", a.Name, a.Why, a.UUID),
			fmt.Sprintf("give it that one, or another, in the API database: UPDATE aggregates SET uuid = '%s' WHERE id = %d", a.UUID, a.ID)).of(fmt.Sprintf("aggregate %d", a.ID))...)
	}
	return out.in("aggregates")
}

// instanceRemedies are what to do about instances that cannot be imported.
var instanceRemedies = map[importer.Reason]struct{ status, do string }{
	importer.NoRow:      {unhealthy, "see where it is: delete or evacuate the instance, or bring its host's row back"},
	importer.NullAmount: {warned, "its flavor's amounts are missing in its row: nova-manage db online_data_migrations; what it uses stays reserved until then"},
	importer.BadAmount:  {warned, "correct the row of instances"},
	importer.BadUUID:    {warned, "correct the row of instances"},
	importer.BadHost:    {unhealthy, "restart its nova-compute, which writes the row anew"},
}

func checkInstances(u *upgrade) (out results) {
	for _, l := range u.imported.LeftOut {
		name, remedy := "host "+l.Host, instanceRemedies[l.Reason]
		if l.Instance {
			name = "instance " + l.UUID + " on " + l.Host
		}
		out = append(out, diagnose(cmp.Or(remedy.status, warned), l.Detail, remedy.do).of(name).in("instances: "+string(l.Reason))...)
	}
	if len(out) == 0 {
		return good("%s on hosts, each on a host with a row", counted(u.imported.Instances, "instance"))
	}
	slices.SortStableFunc(out, func(a, b result) int { return cmp.Compare(a.group, b.group) })
	return out
}

// movingRows notes which instances of the rows that pass are on a move.
type movingRows struct {
	importer.Rows
	moving map[string]legacy.Instance
}

// Instances is importer.Rows'.
func (r *movingRows) Instances(ctx context.Context, from legacy.InstancePoint) iter.Seq2[*legacy.InstancePage, error] {
	return func(yield func(*legacy.InstancePage, error) bool) {
		for p, err := range r.Rows.Instances(ctx, from) {
			if p != nil {
				for _, i := range p.Instances {
					if delete(r.moving, i.UUID); isMoving(&i) {
						r.moving[i.UUID] = i
					}
				}
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// moveTasks are Nova's task states of resizes and migrations.
var moveTasks = []string{"resize_prep", "resize_migrating", "resize_migrated", "resize_finish", "resize_reverting", "resize_confirming", "migrating"}

func isMoving(i *legacy.Instance) bool {
	return !i.Deleted && i.Host != "" && (i.VMState == "resized" || slices.Contains(moveTasks, i.TaskState))
}

func movesByAge(moving map[string]legacy.Instance) []legacy.Instance {
	return slices.SortedFunc(maps.Values(moving), func(a, b legacy.Instance) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.UUID, b.UUID))
	})
}

// resourceFilters are the filters that Placement made redundant, and the resource whose
// ratio each judges by: what limits one where Placement does not.
var resourceFilters = map[string]string{
	"CoreFilter": "cpu", "RamFilter": "ram", "DiskFilter": "disk",
	"AggregateCoreFilter": "cpu", "AggregateRamFilter": "ram", "AggregateDiskFilter": "disk",
}

// filterOf is the filter to name for a resource.
var filterOf = map[string]string{"cpu": "CoreFilter", "ram": "RamFilter", "disk": "DiskFilter"}

// limited are the resources that a filter in force limits.
type limited struct {
	by map[string]bool
	// assumed says in a few words what was assumed for that; empty for nothing.
	assumed string
}

// filtersInForce reads the filters of nova.conf, and gives the resources that one of them
// limits; nil when there is no nova.conf to say it.
func filtersInForce(files []string, nova config.NovaOptions) (*limited, results) {
	const check = "filters of nova.conf"
	if len(files) == 0 {
		return nil, diagnose(noted, "no nova.conf is given: redundant filters, and ratios that matter only without them, are not looked at", "give --nova-conf, or set gateway.nova_conf").of(check)
	}
	known := knownToNova()
	release, err := novarelease.Parse(nova.Release)
	if err != nil {
		return nil, diagnose(unhealthy, "gateway.nova.nova_release: "+err.Error(), "correct it").of(check)
	}
	known.Release = release
	s, err := novaconf.Read(files, known)
	if err != nil {
		return nil, diagnose(unhealthy, err.Error(), "correct it: a gateway with this file does not start").of(check)
	}
	enabled, err := novaconf.EnabledFilters(files, release)
	if err != nil {
		return nil, diagnose(unhealthy, err.Error(), "correct it").of(check)
	}
	var out results
	for _, n := range s.Notes {
		if strings.HasPrefix(n.Why, "redundant") {
			out = append(out, diagnose(warned, n.What+" is "+n.Why, "delete "+n.What+" from the enabled filters ("+n.Where+")").of(check)...)
		}
	}
	l := &limited{by: map[string]bool{}}
	assumption := ""
	l.assumed, assumption = assumedFilters(enabled, release)
	if assumption != "" {
		out = append(out, diagnose(noted, assumption, "set gateway.nova.nova_release to the release of the scheduler that runs today").of("release of nova.conf")...)
	}
	var limiting []string
	for _, name := range enabled.Filters {
		if resource, is := resourceFilters[name]; is {
			l.by[resource] = true
			limiting = append(limiting, name)
		}
	}
	where := cmp.Or(enabled.From, "the defaults of "+release.String())
	if len(limiting) == 0 {
		return l, append(out, good("by %s none of %s is enabled", where, strings.Join(slices.Sorted(maps.Keys(resourceFilters)), ", ")).of("resource filters")...)
	}
	return l, append(out, good("in force by %s: %s", where, strings.Join(limiting, ", ")).of("resource filters")...)
}

// assumedFilters says what is assumed of the filters in force, in a few words and whole.
func assumedFilters(enabled novaconf.Enabled, release novarelease.Release) (short, whole string) {
	switch {
	case enabled.OldName && release == 0:
		return "when [DEFAULT] scheduler_default_filters counts", "gateway.nova.nova_release is not set: [DEFAULT] scheduler_default_filters (" + enabled.From + ") is assumed to count, as it does before 24.0.0 (xena)"
	case enabled.OldName && !release.ReadsOldNames():
		return "when [DEFAULT] scheduler_default_filters counts", "[DEFAULT] scheduler_default_filters (" + enabled.From + ") is assumed to count, which it does not in " + release.String() + ": the scheduler that runs today may be older"
	case enabled.From == "" && release == 0:
		return "by the defaults of " + release.String() + ", which are assumed", "gateway.nova.nova_release is not set, nor the enabled filters: the defaults of " + release.String() + " are assumed; Ocata's have RamFilter and DiskFilter"
	}
	return "", ""
}

// checkRatios names allocation ratios that are not set, and those that limit what nothing limits
// today.
func checkRatios(u *upgrade) (out results) {
	for _, r := range u.rows.Ratios() {
		name := r.Resource + "_allocation_ratio"
		if r.Unset > 0 {
			out = append(out, diagnose(noted, fmt.Sprintf("is NULL or 0.0 in %s, and counts as %v there", counted(r.Unset, "row"), r.Becomes),
				"set "+name+" or initial_"+name+" of the cell in gateway.legacy to what the computes' nova.conf has, when it is not that; agents report a ratio of their own").of(name)...)
		}
		if u.limited == nil || u.limited.by[r.Resource] || r.Low == 0 {
			continue
		}
		not, have := " is not enabled", fmt.Sprintf("%d rows have", r.Low)
		if u.limited.assumed != "" {
			not += " (" + u.limited.assumed + ")"
		}
		if r.Low == 1 {
			have = "1 row has"
		}
		out = append(out, diagnose(warned, fmt.Sprintf("%s, and %s less than %v: where Placement does not limit the resource either (before Ocata) nothing does, and the shard will, by total * ratio", filterOf[r.Resource]+not, have, legacy.Unlimited),
			"if so and it is to stay so, set "+name+" = 9999.0 on the computes before the move (Nova's release notes say 9999.0, its specification 10000.0: either is beyond what a host can hold); if Placement limits it, leave it").of(name)...)
	}
	return out
}
