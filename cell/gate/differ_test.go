package gate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// asked is what a gateway asks of Nova's services.
type asked struct {
	gateway  string
	required int32
	downTime time.Duration
}

// askedOf are reports of gateways that see the same services and ask for different things.
func askedOf(services []Service, all ...asked) Evidence {
	e := Evidence{now: gateStart.Add(5 * time.Minute), node: allRegistered}
	for _, a := range all {
		e.reports = append(e.reports, Report{
			Gateway: "incarnation of " + a.gateway, name: a.gateway, required: a.required, downTime: a.downTime, Services: services, unclaimed: allClaimed,
		})
	}
	return e
}

func TestTheGateNamesGatewaysThatDiffer(t *testing.T) {
	upOf := func(version int32) []Service {
		s := newService("h1")
		s.version, s.lastSeen = version, gateStart.Add(290*time.Second)
		return []Service{s}
	}
	old := newService("h1") // silent for five minutes, and up by a long service_down_time
	old.version = 65
	minute := time.Minute
	for name, c := range map[string]struct {
		e                 Evidence
		closes, waits, no string
	}{
		"a number of one gateway": {
			e:      askedOf(upOf(66), asked{"g2", 67, minute}, asked{"g1", 66, minute}),
			closes: "nova-compute on h1 is up and of version 66, 67 is required",
			waits:  "gateways differ in required_version, and the highest counts: gateway g2 requires 67, gateway g1 requires 66",
			no:     "service_down_time",
		},
		"several, and one without": {
			e:     askedOf(upOf(66), asked{"g4", 66, 0}, asked{"g3", 66, 0}, asked{"g5", 66, 0}, asked{"g2", 67, 0}, asked{"g6", 0, 0}),
			waits: "gateway g2 requires 67, gateway g3 and 2 more require 66, gateway g6 requires none",
			no:    "service_down_time",
		},
		"all of one number":          {e: askedOf(upOf(66), asked{"g2", 67, minute}, asked{"g1", 67, minute}), closes: "nova-compute on h1 is up and of version 66, 67 is required", no: "gateway"},
		"older than any asks for":    {e: askedOf(upOf(65), asked{"g2", 67, minute}, asked{"g1", 66, minute}), closes: "nova-compute on h1 is up and of version 65, 67 is required", no: "service_down_time"},
		"all are new enough for all": {e: askedOf(upOf(67), asked{"g2", 67, minute}, asked{"g1", 66, 2 * minute}), no: "gateway"},
		"a service that is up for one": {
			e:      askedOf([]Service{old}, asked{"g2", 66, minute}, asked{"g1", 66, time.Hour}),
			closes: "nova-compute on h1 is up and of version 65, 66 is required",
			waits:  "gateways differ in service_down_time, and by the longest a service is up: gateway g1 has 1h0m0s, gateway g2 has 1m0s",
			no:     "required_version",
		},
		"one that does not say": {e: askedOf([]Service{old}, asked{"g2", 66, 0}, asked{"g1", 66, time.Hour}), closes: "nova-compute on h1 is up and of version 65, 66 is required", no: "gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []shard.GateState{shard.GateNative, shard.GateShadow} {
				v := testRules().Judge(gateWith(state, time.Hour), c.e)
				if c.closes != "" && (v.Want.State != shard.GateLegacy || v.Want.Reason != c.closes) {
					t.Errorf("%s: it is %s: %s", state, v.Want.State, v.Want.Reason)
				}
				if c.closes == "" && c.waits == "" && v.Want.State != state {
					t.Errorf("%s: it closes: %s", state, v.Want.Reason)
				}
			}
			waits := testRules().Judge(gateWith(shard.GateLegacy, time.Hour), c.e).waitsFor
			if c.waits != "" && !slices.ContainsFunc(waits, func(w string) bool { return strings.Contains(w, c.waits) }) {
				t.Errorf("it waits for %q", waits)
			}
			if all := strings.Join(waits, "; "); strings.Contains(all, c.no) {
				t.Errorf("it waits for %q", all)
			}
		})
	}
}

// Many gateways, each with a number of its own, are no long text.
func TestGatewaysDiffer_ManyGateways_NamesFew(t *testing.T) {
	var all []*cellgatev1.GateReader
	for n := range int32(60) {
		all = append(all, &cellgatev1.GateReader{Gateway: fmt.Sprint("g", n), RequiredVersion: proto.Int32(n + 1)})
	}
	required, downTime := GatewaysDiffer(all)
	if required != "gateway g59 requires 60, gateway g58 requires 59, gateway g57 requires 58, gateway g0 requires 1" || downTime != "" {
		t.Errorf("it is %q, %q", required, downTime)
	}
}
