package agent

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

func TestFleetReadyWhenEveryHostIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 30
		late := "cell1-r02-h001"
		open := false
		c := &fakeCell{}
		c.refuse = func(s *agentv1.FullState) []string {
			if s.GetServiceHost() == late && !open {
				return []string{"not yet"}
			}
			return nil
		}
		c.start()
		f, err := NewFleet(FleetConfig{
			Cell: "cell1", Replicas: []string{"a", "b"}, HostsPerConn: 7,
		}, FleetDeps{Source: simulation(t, hosts), Dial: c.dial})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		synctest.Wait()
		select {
		case <-f.Ready():
			t.Error("ready before the last host was accepted")
		default:
		}
		if n := f.Accepted(); n != hosts-1 {
			t.Errorf("%d hosts accepted, want %d", n, hosts-1)
		}
		c.mu.Lock()
		open = true
		c.mu.Unlock()
		<-f.Ready()
		if _, _, streams := c.received(); streams != 2*hosts {
			t.Errorf("%d streams, want %d: one a host and replica", streams, 2*hosts)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		c.stop()
	})
}

// changing is a source of one host, whose states come from a channel.
type changing struct {
	host   *Host
	states chan *agentv1.FullState
}

func (c changing) Hosts() []*Host { return []*Host{c.host} }

func (c changing) Run(ctx context.Context) error {
	for {
		select {
		case s := <-c.states:
			c.host.Put(s)
		case <-ctx.Done():
			return nil
		}
	}
}

// A change of a fleet's source is reported to every replica as the next version.
func TestFleetReportsWhatItsSourceChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.start()
		source := changing{NewHost(Simulate(1, "cell1", 0)), make(chan *agentv1.FullState)}
		f, err := NewFleet(FleetConfig{Cell: "cell1", Replicas: []string{"a", "b"}}, FleetDeps{Source: source, Dial: c.dial})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		synctest.Wait() // both replicas have version 1
		next := Simulate(1, "cell1", 0)
		next.Disabled = true
		source.states <- next
		synctest.Wait()
		deltas := c.receivedDeltas()
		if states, _, _ := c.received(); len(states) != 2 || len(deltas) != 2 || !deltas[0].GetDisabled() || deltas[0].GetVersion() != 2 || deltas[1].GetVersion() != 2 {
			t.Errorf("heard %d states and %d deltas, want two of version 1 and two of version 2", len(states), len(deltas))
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		c.stop()
	})
}

// If all agents reach another cell's replica, that is logged in one line, and they do not try again
// soon.
func TestFleetAtAnotherCellsReplicaSaysSoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 5
		c := &fakeCell{end: fault.Invalid("cell", `the agent is of cell "cell1"; this is cell "cell2"`)}
		c.start()
		var out bytes.Buffer
		f, err := NewFleet(FleetConfig{Cell: "cell1", Replicas: []string{"a"}}, FleetDeps{Source: simulation(t, hosts), Dial: c.dial, Log: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		time.Sleep(11 * time.Minute) // asked at 0, 5 and 10
		synctest.Wait()
		if _, _, streams := c.received(); streams != 3*hosts {
			t.Errorf("%d streams in 11 minutes, want %d", streams, 3*hosts)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		c.stop()
		text := out.String()
		if strings.Count(text, "\n") != 1 || !strings.Contains(text, "replica a: ") || !strings.Contains(text, "this is cell") {
			t.Errorf("logged:\n%s", text)
		}
	})
}

func TestNewFleetSaysWhatIsMissing(t *testing.T) {
	good := FleetConfig{Cell: "cell1", Replicas: []string{"a"}}
	for name, spoil := range map[string]func(*FleetConfig, *FleetDeps){
		"source":   func(_ *FleetConfig, d *FleetDeps) { d.Source = nil },
		"hosts":    func(_ *FleetConfig, d *FleetDeps) { d.Source = &Simulation{} },
		"cell":     func(c *FleetConfig, _ *FleetDeps) { c.Cell = "" },
		"replicas": func(c *FleetConfig, _ *FleetDeps) { c.Replicas = nil },
		"dial":     func(_ *FleetConfig, d *FleetDeps) { d.Dial = nil },
	} {
		cfg, deps := good, FleetDeps{Source: simulation(t, 1), Dial: (&fakeCell{}).dial}
		spoil(&cfg, &deps)
		if _, err := NewFleet(cfg, deps); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewSimulation(1, "cell1", 0); err == nil {
		t.Error("a simulation of no hosts: no error")
	}
}

func simulation(t *testing.T, hosts int) *Simulation {
	t.Helper()
	s, err := NewSimulation(1, "cell1", hosts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSimulateFollowsTheSeedOnly(t *testing.T) {
	differs := false
	for i := range 60 {
		a, b := Simulate(7, "cell2", i), Simulate(7, "cell2", i)
		if !proto.Equal(a, b) {
			t.Fatalf("host %d differs between two runs of one seed", i)
		}
		other := Simulate(8, "cell2", i)
		if other.GetServiceHost() != a.GetServiceHost() {
			t.Errorf("host %d: the name follows the seed", i)
		}
		if other.GetHostUuid() == a.GetHostUuid() {
			t.Errorf("host %d: same uuid under two seeds", i)
		}
		differs = differs || !proto.Equal(a.GetProviders()[0].GetInventories()[1], other.GetProviders()[0].GetInventories()[1])
	}
	if !differs {
		t.Error("no host's memory follows the seed")
	}
}
