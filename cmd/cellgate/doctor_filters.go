package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/legacy"
	"cellgate/internal/config"
	"cellgate/internal/novaconf"
	"cellgate/internal/novarelease"
)

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
	// as says in a few words what was assumed for that; empty for nothing.
	as string
}

// limits examines the filters of nova.conf, and gives the resources that one of them
// limits; nil when there is no nova.conf to say it.
func (d *doctor) limits(files []string, nova config.NovaOptions) *limited {
	const check = "filters of nova.conf"
	if len(files) == 0 {
		d.add(check, noted, "no nova.conf is given: redundant filters, and ratios that matter only without them, are not looked at", "give --nova-conf, or set gateway.nova_conf")
		return nil
	}
	known := knownToNova()
	release, err := novarelease.Parse(nova.Release)
	if err != nil {
		d.add(check, unhealthy, "gateway.nova.nova_release: "+err.Error(), "correct it")
		return nil
	}
	known.Release = release
	s, err := novaconf.Read(files, known)
	if err != nil {
		d.add(check, unhealthy, err.Error(), "correct it: a gateway with this file does not start")
		return nil
	}
	enabled, err := novaconf.EnabledFilters(files, release)
	if err != nil {
		d.add(check, unhealthy, err.Error(), "correct it")
		return nil
	}
	for _, n := range s.Notes {
		if strings.HasPrefix(n.Why, "redundant") {
			d.add(check, warned, n.What+" is "+n.Why, "delete "+n.What+" from the enabled filters ("+n.Where+")")
		}
	}
	using := &limited{by: map[string]bool{}, as: d.assumed(enabled, release)}
	var limiting []string
	for _, name := range enabled.Filters {
		if resource, is := resourceFilters[name]; is {
			using.by[resource] = true
			limiting = append(limiting, name)
		}
	}
	where := "the defaults of " + release.String()
	if enabled.From != "" {
		where = enabled.From
	}
	if len(limiting) == 0 {
		d.ok("resource filters", "by %s none of %s is enabled", where, strings.Join(slices.Sorted(maps.Keys(resourceFilters)), ", "))
	} else {
		d.ok("resource filters", "in force by %s: %s", where, strings.Join(limiting, ", "))
	}
	return using
}

// assumed tells what was assumed of the filters in force, and gives it in a few words.
func (d *doctor) assumed(enabled novaconf.Enabled, release novarelease.Release) string {
	const check, do = "release of nova.conf", "set gateway.nova.nova_release to the release of the scheduler that runs today"
	switch {
	case enabled.OldName && release == 0:
		d.add(check, noted, "gateway.nova.nova_release is not set: [DEFAULT] scheduler_default_filters ("+enabled.From+") is assumed to count, as it does before 24.0.0 (xena)", do)
		return "when [DEFAULT] scheduler_default_filters counts"
	case enabled.OldName && !release.ReadsOldNames():
		d.add(check, noted, "[DEFAULT] scheduler_default_filters ("+enabled.From+") is assumed to count, which it does not in "+release.String()+": the scheduler that runs today may be older", do)
		return "when [DEFAULT] scheduler_default_filters counts"
	case enabled.From == "" && release == 0:
		d.add(check, noted, "gateway.nova.nova_release is not set, nor the enabled filters: the defaults of "+release.String()+" are assumed; Ocata's have RamFilter and DiskFilter", do)
		return "by the defaults of " + release.String() + ", which are assumed"
	}
	return ""
}

// ratios tells of those that are not set, and of those that limit what nothing limits
// today.
func (u *upgrade) ratios(x *legacy.Snapshot) {
	for _, r := range x.Ratios() {
		name := r.Resource + "_allocation_ratio"
		if r.Unset > 0 {
			u.say(name, noted, fmt.Sprintf("is NULL or 0.0 in %s, and counts as %v there", counted(r.Unset, "row"), r.Becomes),
				"set "+name+" or initial_"+name+" of the cell in gateway.legacy to what the computes' nova.conf has, when it is not that; agents report a ratio of their own")
		}
		if u.using == nil || u.using.by[r.Resource] || r.Low == 0 {
			continue
		}
		not := " is not enabled"
		if u.using.as != "" {
			not += " (" + u.using.as + ")"
		}
		u.say(name, warned, fmt.Sprintf("%s, and %s less than %v: where Placement does not limit the resource either (before Ocata) nothing does, and the shard will, by total * ratio", filterOf[r.Resource]+not, countedHave(r.Low), legacy.Unlimited),
			"if so and it is to stay so, set "+name+" = 9999.0 on the computes before the move (Nova's release notes say 9999.0, its specification 10000.0: either is beyond what a host can hold); if Placement limits it, leave it")
	}
}

func countedHave(rows int) string {
	if rows == 1 {
		return "1 row has"
	}
	return fmt.Sprintf("%d rows have", rows)
}
