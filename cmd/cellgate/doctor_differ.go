package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"cellgate/cell"
	"cellgate/gateway/legacy"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// disputes tells in what the gateways that report to any replica differ, and the doctor's own file
// differs from what the gate goes by: the strictest counts, whoever asks for it.
func (u *upgrade) disputes(x *legacy.Snapshot) {
	var readers []*cellgatev1.GateReader
	for _, name := range slices.Sorted(maps.Keys(u.readers)) {
		readers = append(readers, u.readers[name])
	}
	required, downTime := cell.GatewaysDiffer(readers)
	u.versions(x, readers, required)
	u.downTimes(readers, downTime)
}

// versions are those that are required; by says who requires what, where gateways differ.
func (u *upgrade) versions(x *legacy.Snapshot, readers []*cellgatev1.GateReader, by string) {
	own := int64(u.conf.RequiredVersion)
	highest, lowest := max(int64(u.required), own), own
	if u.required > 0 {
		lowest = min(lowest, int64(u.required))
	}
	for _, r := range readers {
		if r.RequiredVersion != nil {
			highest, lowest = max(highest, int64(r.GetRequiredVersion())), min(lowest, int64(r.GetRequiredVersion()))
		}
	}
	if highest == lowest {
		return
	}
	what := "the gateways differ: " + by
	if by == "" {
		// They agree, or the cell is of before and says the highest alone.
		of := int64(u.required)
		for _, r := range readers {
			of = max(of, int64(r.GetRequiredVersion()))
		}
		what = "the gateways require " + requiredText(of)
	}
	what += ", and this file has " + requiredText(own)
	status, n := warned, 0
	for i := range x.Services {
		if s := &x.Services[i]; s.Version >= lowest && s.Version < highest && silence(s, x.At, cmp.Or(u.conf.ServiceDownTime, time.Minute)) == "" {
			n++
		}
	}
	if n > 0 {
		status = unhealthy
		what += fmt.Sprintf("; the highest counts: the gate waits for %s of a version below %d, or closes", counted(n, "service"), highest)
	}
	u.say("required_version", status, what, fmt.Sprintf("set one required_version in gateway.legacy of every gateway, and restart those that differ; the highest only once every nova-compute is of version %d or above", highest))
}

func requiredText(n int64) string {
	if n <= 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func (u *upgrade) downTimes(readers []*cellgatev1.GateReader, by string) {
	own := cmp.Or(u.conf.ServiceDownTime, time.Minute)
	what := ""
	if by != "" {
		what = "the gateways differ: " + by
	} else if i := slices.IndexFunc(readers, func(r *cellgatev1.GateReader) bool { return r.GetServiceDownTime() != nil }); i >= 0 {
		if of := readers[i].GetServiceDownTime().AsDuration(); of != own {
			what = "the gateways have " + of.String()
		}
	}
	if what != "" {
		u.say("service_down_time", warned, what+", and this file has "+own.String()+"; the gate counts a service as up by the longest, and each gateway answers by its own",
			"set Nova's service_down_time in gateway.legacy of every gateway, and restart those that differ")
	}
}
