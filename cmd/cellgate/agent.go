package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"cellgate/agent"
	"cellgate/internal/config"
	"cellgate/internal/health"
	"cellgate/internal/lifecycle"
	"cellgate/internal/security"
)

func newAgent(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run a simulated fleet: the agents of many hosts of one cell",
		Long: `Run the agents of simulated hosts, each with its own stream to the cell. The same
seed gives the same hosts. Each key of the configuration file's section "agent"
is also a variable CELLGATE_AGENT_<KEY> and a flag; flags win.`,
		Example: `  cellgate agent --config deploy/examples/agent1.yaml
  cellgate agent --cell cell1 --replica 127.0.0.1:9101 --hosts 1000 --seed 7`,
		Args: usageArgs(cobra.NoArgs),
	}
	load := bindKeys(cmd, "agent", t.env)
	cmd.RunE = serves(func(cmd *cobra.Command) error {
		c, err := load()
		if err != nil {
			return err
		}
		a := &assembly{log: newLog(c.Log, t)}
		var s startup
		s.add(a.observe(c.Telemetry, "agent"))
		web, err := a.listenMetrics(c.Agent.Metrics)
		s.add(err)
		dial, err := a.addClientTLS("agent.tls", c.Agent.TLS)
		s.add(err)
		if err := s.err(); err != nil {
			return a.abandon(cmd.Context(), err)
		}
		open, err := security.NewServer(security.ServerConfig{}, a.log)
		if err != nil {
			return a.abandon(cmd.Context(), err)
		}
		var f *agent.Fleet
		working := health.New(nil, func() []health.Check {
			n := f.Accepted()
			return []health.Check{{Name: "hosts", OK: n >= c.Agent.Hosts, Why: fmt.Sprintf("%d of %d are registered", n, c.Agent.Hosts)}}
		})
		working.Of(processOfAgent(c.Agent, a.command))
		a.addMetrics(web, working, open)
		f, err = a.addFleet(c.Agent, dial)
		if err != nil {
			return a.abandon(cmd.Context(), err)
		}
		a.add(lifecycle.Part{Name: "registration", Run: func(ctx context.Context) error {
			select {
			case <-f.Ready():
				a.log.Info("every host is registered", "cell", c.Agent.Cell, "hosts", c.Agent.Hosts)
				<-ctx.Done()
			case <-ctx.Done():
			}
			return nil
		}})
		return a.run(cmd.Context())
	})
	return cmd
}

// processOfAgent is what agents say they are, when a command runs them.
func processOfAgent(c config.Agent, command string) health.Process {
	return health.Process{Kind: "agent", Command: command, Cell: c.Cell, Seed: c.Seed}
}

// addFleet adds a simulated fleet. It does not wait for its hosts.
func (a *assembly) addFleet(c config.Agent, dial dialFunc) (*agent.Fleet, error) {
	source, err := agent.NewSimulation(c.Seed, c.Cell, c.Hosts)
	if err != nil {
		return nil, err
	}
	f, err := agent.NewFleet(agent.FleetConfig{
		Cell: c.Cell, Replicas: c.Replicas, HostsPerConn: c.HostsPerConn,
	}, agent.FleetDeps{Source: source, Dial: dial, Log: a.log, Telemetry: a.telemetry.Agent(c.Cell)})
	if err != nil {
		return nil, err
	}
	a.add(lifecycle.Part{Name: "agents of " + c.Cell, Run: f.Run})
	return f, nil
}
