package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"cellgate/agent"
	"cellgate/internal/config"
	"cellgate/internal/health"
	"cellgate/internal/lifecycle"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
)

func newAgent(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of this host, or those of a simulated fleet",
		Long: `Run the agent of this host: it reads the machine's CPUs, memory, NUMA nodes, PCI
devices and disk, and reports them to every replica of its cell, again whenever
something changed. With --print it prints what it would report, and ends.

With --hosts it runs the agents of so many made-up hosts instead, each with its own
stream to the cell; the same seed gives the same hosts.

Each key of the configuration file's section "agent" is also a variable
CELLGATE_AGENT_<KEY> and a flag; flags win. SIGHUP reads the configuration again.`,
		Example: `  cellgate agent --print --disk-path /var/lib
  cellgate agent --config deploy/examples/agent.yaml
  cellgate agent --cell cell1 --replica 127.0.0.1:9101 --state-dir ./host --disk-path / --pci-device vendor_id=8086,product_id=154c
  cellgate agent --cell cell1 --replica 127.0.0.1:9101 --hosts 1000 --seed 7`,
		Args: usageArgs(cobra.NoArgs),
	}
	load := bindKeys(cmd, "agent", t.env)
	form := outputFlag(cmd)
	cmd.AddCommand(newAgentClaims(t, form))
	cmd.RunE = serves(func(cmd *cobra.Command) error {
		c, err := load()
		switch {
		case err != nil:
			return err
		case c.Agent.Print:
			return printHost(cmd, c.Agent, *form)
		case c.Agent.Hosts > 0:
			return runAgents(cmd, t, c, (*assembly).addSimulation)
		}
		// From here on a SIGHUP does not end the process.
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		return runAgents(cmd, t, c, func(a *assembly, _ config.Agent, dial dialFunc) (*agent.Fleet, error) {
			return a.addHost(c, dial, load, hangups)
		})
	})
	return cmd
}

// runAgents runs the agents that add adds.
func runAgents(cmd *cobra.Command, t terminal, c config.Config, add func(*assembly, config.Agent, dialFunc) (*agent.Fleet, error)) error {
	a := &assembly{log: newLog(c.Log, t)}
	var s startup
	s.add(a.observe(c.Telemetry, "agent"))
	web, err := a.listenMetrics(c.Agent.Metrics)
	s.add(err)
	dial, err := a.addClientTLS("agent.tls", c.Agent.TLS, rpc.Patient())
	s.add(err)
	if err := s.err(); err != nil {
		return a.abandon(cmd.Context(), err)
	}
	open, err := security.NewServer(security.ServerConfig{}, a.log)
	if err != nil {
		return a.abandon(cmd.Context(), err)
	}
	var f *agent.Fleet
	hosts := max(c.Agent.Hosts, 1)
	working := health.New(nil, func() []health.Check {
		n := f.Accepted()
		refused := health.Check{Name: "states", OK: true}
		if n, why := f.Refused(); n > 0 {
			refused = health.Check{Name: "states", Why: fmt.Sprintf("what %d of %d hosts say is refused; the first: %s", n, hosts, why)}
		}
		return []health.Check{{Name: "hosts", OK: n >= hosts, Why: fmt.Sprintf("%d of %d are registered", n, hosts)}, refused}
	})
	a.addMetrics(web, working, open)
	if f, err = add(a, c.Agent, dial); err != nil {
		var s startup
		s.add(err)
		return a.abandon(cmd.Context(), s.err())
	}
	a.add(lifecycle.Part{Name: "registration", Run: func(ctx context.Context) error {
		select {
		case <-f.Ready():
			a.log.Info("every host is registered", "cell", c.Agent.Cell, "hosts", hosts)
			<-ctx.Done()
		case <-ctx.Done():
		}
		return nil
	}})
	return a.run(cmd.Context())
}

// addSimulation adds the agents of simulated hosts. It does not wait for them.
func (a *assembly) addSimulation(c config.Agent, dial dialFunc) (*agent.Fleet, error) {
	source, err := agent.NewSimulation(c.Seed, c.Cell, c.Hosts)
	if err != nil {
		return nil, err
	}
	return a.addFleet(c, source, dial)
}

// addFleet adds the agents of a source's hosts.
func (a *assembly) addFleet(c config.Agent, source agent.Source, dial dialFunc) (*agent.Fleet, error) {
	f, err := agent.NewFleet(agent.FleetConfig{
		Cell: c.Cell, Replicas: c.Replicas, TrustCell: !c.Verify,
	}, agent.FleetDeps{Source: source, Dial: dial, Log: a.log, Telemetry: a.telemetry.Agent(c.Cell)})
	if err != nil {
		return nil, err
	}
	a.add(lifecycle.Part{Name: "agents of " + c.Cell, Run: f.Run})
	return f, nil
}
