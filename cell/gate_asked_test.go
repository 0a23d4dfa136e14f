package cell

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// askedOf are reports of gateways that see the same services and ask for different things.
func askedOf(services []legacyService, all ...asked) evidence {
	e := evidence{now: gateStart.Add(5 * time.Minute), node: allRegistered}
	for _, a := range all {
		e.reports = append(e.reports, legacyReport{
			gateway: "life of " + a.gateway, name: a.gateway, required: a.required, downTime: a.downTime, services: services, unclaimed: allClaimed,
		})
	}
	return e
}

func TestTheGateNamesGatewaysThatDiffer(t *testing.T) {
	upOf := func(version int32) []legacyService {
		s := newService("h1")
		s.version, s.lastSeen = version, gateStart.Add(290*time.Second)
		return []legacyService{s}
	}
	old := newService("h1") // silent for five minutes, and up by a long service_down_time
	old.version = 65
	minute := time.Minute
	for name, c := range map[string]struct {
		e                 evidence
		closes, waits, no string
	}{
		"a number of one gateway": {
			e:      askedOf(upOf(66), asked{"g2", 67, minute}, asked{"g1", 66, time.Hour}),
			closes: "nova-compute on h1 is up and of version 66, 67 is required; by required_version gateways differ: gateway g2 requires 67, gateway g1 requires 66",
			waits:  "gateways differ in required_version, and the highest counts: gateway g2 requires 67, gateway g1 requires 66",
			no:     "service_down_time",
		},
		"several, and one without": {
			e:     askedOf(upOf(66), asked{"g4", 66, 0}, asked{"g3", 66, 0}, asked{"g5", 66, 0}, asked{"g2", 67, 0}, asked{"g6", 0, 0}),
			waits: "gateway g2 requires 67, gateway g3 and 2 more require 66, gateway g6 requires none",
			no:    "service_down_time",
		},
		"all of one number":          {e: askedOf(upOf(66), asked{"g2", 67, minute}, asked{"g1", 67, minute}), closes: "nova-compute on h1 is up and of version 66, 67 is required", no: "gateway"},
		"older than any asks for":    {e: askedOf(upOf(65), asked{"g2", 67, minute}, asked{"g1", 66, minute}), closes: "nova-compute on h1 is up and of version 65, 67 is required", no: "gateway"},
		"all are new enough for all": {e: askedOf(upOf(67), asked{"g2", 67, minute}, asked{"g1", 66, 2 * minute}), no: "gateway"},
		"a service that is up for one": {
			e:      askedOf([]legacyService{old}, asked{"g2", 66, minute}, asked{"g1", 66, time.Hour}),
			closes: "nova-compute on h1 is up and of version 65, 66 is required; by service_down_time gateways differ: gateway g1 has 1h0m0s, gateway g2 has 1m0s",
			waits:  "gateways differ in service_down_time, and by the longest a service is up: gateway g1 has 1h0m0s, gateway g2 has 1m0s",
			no:     "required_version",
		},
		"one that does not say": {e: askedOf([]legacyService{old}, asked{"g2", 66, 0}, asked{"g1", 66, time.Hour}), closes: "nova-compute on h1 is up and of version 65, 66 is required", no: "gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []shard.GateState{shard.GateNative, shard.GateShadow} {
				v := testRules().judge(gateWith(state, time.Hour), c.e)
				if c.closes != "" && (v.want.State != shard.GateLegacy || v.want.Reason != c.closes) {
					t.Errorf("%s: it is %s: %s", state, v.want.State, v.want.Reason)
				}
				if c.closes == "" && c.waits == "" && v.want.State != state {
					t.Errorf("%s: it closes: %s", state, v.want.Reason)
				}
			}
			waits := testRules().judge(gateWith(shard.GateLegacy, time.Hour), c.e).waitsFor
			if c.waits != "" && !slices.ContainsFunc(waits, func(w string) bool { return strings.Contains(w, c.waits) }) {
				t.Errorf("it waits for %q", waits)
			}
			if all := strings.Join(waits, "; "); strings.Contains(all, c.no) {
				t.Errorf("it waits for %q", all)
			}
		})
	}
}

// What a gateway asked for before it was started anew names nobody.
func TestAGatewayThatIsStartedAnewDiffersFromNoOther(t *testing.T) {
	s := newService("h1")
	e := askedOf([]legacyService{s}, asked{"g2", 66, 0}, asked{"g1", 66, 0}, asked{"g2", 67, 0})
	for i := range e.reports {
		e.reports[i].gateway, e.reports[i].heard = fmt.Sprint("life", i), gateStart.Add(time.Duration(i)*time.Second)
	}
	for range 2 {
		if why := testRules().judge(gateWith(shard.GateNative, time.Hour), e).want.Reason; !strings.HasSuffix(why, "gateway g2 requires 67, gateway g1 requires 66") {
			t.Errorf("it closes: %s", why)
		}
		slices.Reverse(e.reports)
	}
}

// Many gateways, each with a number of its own, are no long text.
func TestOnlySoManyGatewaysAreNamed(t *testing.T) {
	var all []asked
	for n := range int32(60) {
		all = append(all, asked{fmt.Sprint("g", n), n + 1, 0})
	}
	d := disputeOf(all)
	if d.required != "gateway g59 requires 60, gateway g58 requires 59, gateway g57 requires 58, gateway g0 requires 1" || d.leastRequired != 1 || d.downTime != "" {
		t.Errorf("it is %+v", d)
	}
}

// What each gateway asks for is shown beside what it reads; that they differ is in the audit
// once, and in a metric.
func TestWhatGatewaysAskForIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		required, down := map[string]int32{"g1": 66, "g2": 66}, map[string]time.Duration{"g1": time.Minute}
		goes := func() *cellgatev1.Gate {
			for range 5 {
				for gateway, n := range required {
					req := readBy(gateway, 0)
					req.RequiredVersion = n
					if d := down[gateway]; d > 0 {
						req.ServiceDownTime = durationpb.New(d)
					}
					r.reportLegacy(req)
				}
				time.Sleep(2 * time.Second)
			}
			return r.reportLegacy(&cellv1.ReportLegacyRequest{Gateway: "doctor", RequiredVersion: 99, Look: true}).GetGate()
		}
		metric := func() float64 { return r.gauge("cellgate_cell_gate_gateways_differing") }

		g := goes()
		one, other := readerNamed(g, "g1"), readerNamed(g, "g2")
		if one.GetRequiredVersion() != 66 || one.GetServiceDownTime().AsDuration() != time.Minute || other.RequiredVersion == nil || other.ServiceDownTime != nil {
			t.Errorf("the gate has %v", g.GetReaders())
		}
		if len(r.told()) != 0 || metric() != 0 {
			t.Errorf("they agree: %v, %q", metric(), r.told())
		}

		required["g2"] = 67
		g = goes()
		if readerNamed(g, "g2").GetRequiredVersion() != 67 || metric() != 1 {
			t.Errorf("the gate has %v, %v differ", g.GetReaders(), metric())
		}
		want := `gateways differ in what they ask of Nova's services, and the strictest counts" required_version="gateway g2.example:9100 requires 67, gateway g1.example:9100 requires 66" service_down_time=""`
		if told := r.lines("in what they ask"); len(told) != 1 || !strings.Contains(told[0], want) {
			t.Errorf("the audit has %q", told)
		}
		required["g2"], down["g2"] = 0, time.Hour
		if g = goes(); readerNamed(g, "g2").RequiredVersion == nil || readerNamed(g, "g2").GetRequiredVersion() != 0 || metric() != 2 {
			t.Errorf("the gate has %v, %v differ", g.GetReaders(), metric())
		}
		delete(required, "g2")
		if goes(); metric() != 2 { // it may come back
			t.Errorf("%v differ", metric())
		}
		for range 2 {
			goes()
		}
		if metric() != 0 {
			t.Errorf("%v differ of one", metric())
		}
		for range int(keepReader / (10 * time.Second)) {
			goes()
		}
		if told := r.lines("ask the same"); len(told) != 1 {
			t.Errorf("the audit has %q", told)
		}
	})
}

// lines gives the audit lines with a text.
func (r *rig) lines(text string) (lines []string) {
	for _, line := range r.log.audited() {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}
