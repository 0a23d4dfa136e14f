package gateway

import (
	"errors"
	"fmt"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// boundsFrom reads bounds, the least and the greatest by turns; nil for none.
func boundsFrom(in []float64) ([]schedule.Bounds, error) {
	if len(in)%2 != 0 {
		return nil, errors.New("are not pairs")
	}
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]schedule.Bounds, len(in)/2)
	for i := range out {
		out[i] = schedule.Bounds{Min: in[2*i], Max: in[2*i+1]}
	}
	return out, nil
}

// candidatesFrom reads candidates, which are in columns; nil for none. The numbers
// stay where the message has them.
func candidatesFrom(in *cellv1.Candidates, weighers int) ([]schedule.Candidate, error) {
	uuids, raw, own := in.GetHostUuids(), in.GetRaw(), in.GetMultipliers()
	n := len(uuids) / len(schedule.ID{})
	for _, c := range []struct {
		column    string
		got, want int
	}{
		{"host_uuids", len(uuids), n * len(schedule.ID{})},
		{"service_hosts", len(in.GetServiceHosts()), n},
		{"nodenames", len(in.GetNodenames()), n},
		{"zone", len(in.GetZone()), n},
		{"raw", len(raw), n * weighers},
		{"weights", len(in.GetWeights()), n},
		{"ties", len(in.GetTies()), n},
		{"multipliers", len(own), len(in.GetOwn()) * weighers},
	} {
		if c.got != c.want {
			return nil, fmt.Errorf("%s has %d, must have %d for %d hosts", c.column, c.got, c.want, n)
		}
	}
	if n == 0 {
		return nil, nil
	}
	out := make([]schedule.Candidate, n)
	for i := range out {
		zone := int(in.GetZone()[i])
		if zone < 0 || zone >= len(in.GetZones()) {
			return nil, fmt.Errorf("zone[%d] is %d, there are %d zones", i, zone, len(in.GetZones()))
		}
		out[i] = schedule.Candidate{
			Host:        schedule.ID(uuids[i*len(schedule.ID{}) : (i+1)*len(schedule.ID{})]),
			ServiceHost: in.GetServiceHosts()[i], NodeName: in.GetNodenames()[i], Zone: in.GetZones()[zone],
			Raw: raw[i*weighers : (i+1)*weighers : (i+1)*weighers], Weight: in.GetWeights()[i], Tie: in.GetTies()[i],
		}
		if out[i].NodeName == "" {
			out[i].NodeName = out[i].ServiceHost
		}
	}
	before := -1
	for i, k := range in.GetOwn() {
		if int(k) <= before || int(k) >= n {
			return nil, fmt.Errorf("own[%d] is %d, after %d and of %d hosts", i, k, before, n)
		}
		before = int(k)
		out[k].Multipliers = own[i*weighers : (i+1)*weighers : (i+1)*weighers]
	}
	return out, nil
}
