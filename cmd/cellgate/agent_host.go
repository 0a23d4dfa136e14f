package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"cellgate/agent"
	"cellgate/agent/hostprobe"
	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/lifecycle"
)

// addHost adds the agent of this machine. It reads the configuration again at each signal.
func (a *assembly) addHost(all config.Config, dial dialFunc, again func() (config.Config, error), hangups <-chan os.Signal) (*agent.Fleet, error) {
	var s startup
	c := all.Agent
	id, err := hostprobe.OpenIdentity(identityOf(c.Host))
	s.add(err)
	if err == nil {
		a.own("identity", id)
	}
	cfg, err := hostConfig(c)
	s.add(err)
	read := hostprobe.ThisMachine()
	if id == nil || err != nil {
		// Read finds the machine's problems too, so that one error has all of them.
		_, err = hostprobe.Read(anyUUID, cfg, read.Read)
		s.add(err)
		return nil, s.err()
	}
	probe, err := hostprobe.New(id.UUID, cfg, hostprobe.Deps{Read: read.Read, Log: a.log, Telemetry: a.telemetry.Agent(c.Cell)})
	if err != nil {
		return nil, err
	}
	f, err := a.addFleet(c, probe, dial)
	if err != nil {
		return nil, err
	}
	if err := a.addHostClaims(c.Socket, probe.Hosts()[0].Claims()); err != nil {
		return nil, err
	}
	if cfg.Instances == nil {
		a.log.Info("which instances run here is not known: the cell keeps the claims that it has on this host, and a gateway that has the cell in gateway.legacy brings them in line with Nova's rows; to report instances, set agent.host.instances_dir (docs/how-to/agent.md)")
	}
	a.log.Info("agent starts", "host", cfg.Settings.ServiceHost, "host_uuid", id.UUID, "new", id.New, "cell", c.Cell, "replicas", c.Replicas)
	a.add(lifecycle.Part{Name: "configuration", Run: func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-hangups:
				cfg, err := a.reloaded(all, cfg.Settings.ServiceHost, again)
				if err != nil {
					a.log.Error("the new configuration is not taken, the former one stays", "err", err)
					continue
				}
				probe.Reload(cfg)
			}
		}
	}})
	return f, nil
}

// anyUUID stands for a host's uuid where no answer depends on it.
const anyUUID = "00000000-0000-4000-8000-000000000000"

// reloaded reads the configuration again. Keys that need a restart keep their values, and it logs that
// one changed.
func (a *assembly) reloaded(began config.Config, service string, again func() (config.Config, error)) (hostprobe.Config, error) {
	c, err := again()
	if err != nil {
		return hostprobe.Config{}, err
	}
	if !reflect.DeepEqual(config.Lasting(c, "agent"), config.Lasting(began, "agent")) {
		a.log.Warn("some of the new configuration takes a restart: only what is under agent.host is taken at once, without state_dir, uuid_file and service_host")
	}
	next := began.Agent
	next.Host = c.Agent.Host
	next.Host.ServiceHost = service
	return hostConfig(next)
}

// serviceHost gives the name of the host's service.
func serviceHost(h config.Host) string {
	name, err := os.Hostname()
	if err != nil {
		name = "" // hostConfig says so
	}
	return cmp.Or(h.ServiceHost, name)
}

func identityOf(h config.Host) hostprobe.IdentityConfig {
	return hostprobe.IdentityConfig{
		Dir: h.StateDir, UUIDFile: h.UUIDFile, ServiceHost: serviceHost(h), Machine: hostprobe.MachineID(os.DirFS("/")),
	}
}

// hostConfig gives what a probe reads, completed with what only this machine knows.
func hostConfig(c config.Agent) (hostprobe.Config, error) {
	cfg := hostprobe.Config{Settings: hostprobe.Settings{Host: c.Host, Cell: c.Cell}, Every: c.Host.PollEvery}
	s := &cfg.Settings
	s.ServiceHost = serviceHost(c.Host)
	s.NodeName = cmp.Or(c.Host.NodeName, s.ServiceHost)
	s.HostIP = cmp.Or(c.Host.HostIP, ownAddress(c.Replicas))
	if dir := c.Host.InstancesDir; dir != "" {
		whole, err := filepath.Abs(dir)
		if err != nil {
			return cfg, fmt.Errorf("agent.host.instances_dir: %w", err)
		}
		cfg.Instances = hostprobe.Directory{FS: os.DirFS("/"), Path: cmp.Or(whole[1:], ".")}
	}
	if s.ServiceHost == "" {
		return cfg, fmt.Errorf("agent.host.service_host: this machine has no name; give one")
	}
	return cfg, nil
}

// hostProblems reports what a host's settings have wrong by themselves.
func hostProblems(c config.Config) []fault.Field {
	if c.Agent.Hosts > 0 {
		return nil
	}
	s := hostprobe.Settings{Host: c.Agent.Host}
	bad := s.Problems()
	for i := range bad {
		bad[i].Path = "agent.host." + bad[i].Path
	}
	return bad
}

// ownAddress gives the address of this machine from which it reaches its cell. With a cell on this
// machine, or none, it gives the one from which it reaches the world. It sends nothing for this.
func ownAddress(replicas []string) string {
	const elsewhere = "192.0.2.1:9" // a documentation address: nobody has it
	for _, to := range append(append([]string{}, replicas...), elsewhere) {
		conn, err := (&net.Dialer{Timeout: time.Second}).Dial("udp", to)
		if err != nil {
			continue // the name is not known, or there is no route
		}
		own, ok := conn.LocalAddr().(*net.UDPAddr)
		if conn.Close() == nil && ok && !own.IP.IsLoopback() && !own.IP.IsUnspecified() {
			return own.IP.String()
		}
	}
	return ""
}
