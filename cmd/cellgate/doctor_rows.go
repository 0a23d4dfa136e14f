package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cellgate/gateway/legacy/importer"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/config"
	"cellgate/internal/novaconf"
	"cellgate/internal/novarelease"
)

// remedies say what to do about rows that are no hosts. Their status says whether they block the
// upgrade: a running compute without a host does.
var remedies = map[novadb.Reason]struct{ status, do string }{
	novadb.NoHost:        {warned, "delete the row, it is from before Kilo; or start its nova-compute once"},
	novadb.NoService:     {warned, "start its nova-compute, or delete the row; names are compared with case"},
	novadb.Unmapped:      {unhealthy, "nova-manage cell_v2 discover_hosts; where another cell has it (cell_v2 list_hosts), first delete_host there"},
	novadb.BadUUID:       {unhealthy, "restart its nova-compute, which gives the row a uuid of its own"},
	novadb.NoNode:        {unhealthy, "delete the row, or restart its nova-compute"},
	novadb.NullColumn:    {unhealthy, "restart its nova-compute, which fills the column"},
	novadb.NegativeTotal: {unhealthy, "restart its nova-compute, which fills the column"},
	novadb.NotReported:   {warned, "wait until its nova-compute has reported, or restart it"},
	novadb.NotImportable: {unhealthy, "correct what is named; where its nova-compute writes it, restart that"},
	novadb.Unreadable:    {unhealthy, "restart its nova-compute, which writes the column anew; Nova fails whole requests on it"},
}

// checkLeftOut names the rows of compute_nodes that are no hosts.
func checkLeftOut(u *upgrade) (out results) {
	for i := range u.rows.LeftOut {
		out = append(out, leftOutResult(&u.rows.LeftOut[i])...)
	}
	slices.SortStableFunc(out, func(a, b result) int { return cmp.Compare(a.What, b.What) }) // by reason
	return out
}

// leftOutResult gives the result for a row of compute_nodes that is no host.
func leftOutResult(l *novadb.LeftOut) results {
	what := strings.Join(strings.Fields(fmt.Sprintf("is no host (%s): %s %s %s", l.Reason, l.Host, l.Column, l.Detail)), " ")
	return diagnose(remedies[l.Reason].status, what, remedies[l.Reason].do).named(fmt.Sprintf("row %d of compute_nodes", l.NodeID))
}

// instanceRemedies say what to do about instances that the importer cannot import.
var instanceRemedies = map[importer.Reason]struct{ status, do string }{
	importer.NoRow:      {unhealthy, "see where it is: delete or evacuate the instance, or bring its host's row back"},
	importer.NullAmount: {warned, "its flavor's amounts are missing in its row: nova-manage db online_data_migrations; what it uses stays reserved until then"},
	importer.BadAmount:  {warned, "correct the row of instances"},
	importer.BadUUID:    {warned, "correct the row of instances"},
	importer.BadHost:    {unhealthy, "restart its nova-compute, which writes the row anew"},
}

func checkInstances(u *upgrade) (out results) {
	if u.imported == nil {
		return nil
	}
	for _, l := range u.imported.LeftOut {
		name, remedy := "host "+l.Host, instanceRemedies[l.Reason]
		if l.Instance {
			name = "instance " + l.UUID + " on " + l.Host
		}
		out = append(out, diagnose(cmp.Or(remedy.status, warned), l.Detail, remedy.do).named(name)...)
	}
	if len(out) == 0 {
		return good("%s on hosts, each on a host with a row", counted(u.imported.Instances, "instance"))
	}
	slices.SortStableFunc(out, func(a, b result) int { return cmp.Compare(a.Do, b.Do) }) // by reason
	return out
}

// redundantFilters names the filters of nova.conf that Placement, and cellgate, make redundant.
func redundantFilters(files []string, nova config.NovaOptions) (out results) {
	const check = "filters of nova.conf"
	if len(files) == 0 {
		return diagnose(noted, "no nova.conf is given", "give --nova-conf, or set gateway.nova_conf").named(check)
	}
	known, err := knownToNova(), error(nil)
	if known.Release, err = novarelease.Parse(nova.Release); err != nil {
		return diagnose(unhealthy, "gateway.nova.nova_release: "+err.Error(), "correct it").named(check)
	}
	s, err := novaconf.Read(files, known)
	if err != nil {
		return diagnose(unhealthy, err.Error(), "correct it: a gateway with this file does not start").named(check)
	}
	for _, n := range s.Notes {
		if strings.HasPrefix(n.Why, "redundant") {
			out = append(out, diagnose(warned, n.What+" is "+n.Why, "delete "+n.What+" from the enabled filters ("+n.Where+")").named(check)...)
		}
	}
	return out
}

// checkRatios names allocation ratios that nobody has set.
func checkRatios(u *upgrade) (out results) {
	for _, r := range u.rows.Ratios() {
		if r.Unset > 0 {
			name := r.Resource + "_allocation_ratio"
			out = append(out, diagnose(noted, fmt.Sprintf("is NULL or 0.0 in %s, and counts as %v there", counted(r.Unset, "row"), r.Becomes),
				"set "+name+" or initial_"+name+" of the cell in gateway.legacy to what the computes' nova.conf has, when it is not that; agents report a ratio of their own").named(name)...)
		}
	}
	return out
}
