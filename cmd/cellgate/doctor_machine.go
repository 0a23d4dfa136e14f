package main

import (
	"fmt"
	"syscall"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

const leastFiles, manyFiles = 1024, 8192

// atLeast compares an amount with the least that works, and with what is enough.
func atLeast(n, least, enough uint64, what, do string) results {
	switch {
	case n < least:
		return diagnose(unhealthy, what, do)
	case n < enough:
		return diagnose(warned, what, do)
	}
	return good("%s", what)
}

// checkHost reads the machine and its identity, as its agent would.
func checkHost(p *localProcess) results {
	c := p.conf.Agent
	if c.Hosts > 0 {
		return nil
	}
	report, id, err := readHost(c)
	if err != nil {
		return each(err, "correct it; cellgate agent --print shows what is read")
	}
	amounts := joined(report.State.GetProviders()[0].GetInventories(), func(i *agentv1.Inventory) string { return fmt.Sprintf("%s %d", i.GetResourceClass(), i.GetTotal()) }, ", ")
	out := good("%s has %s", report.State.GetServiceHost(), amounts)
	for _, n := range report.Notes {
		out = append(out, diagnose(warned, n, "correct it, or leave it out")...)
	}
	own := good("%s", id.UUID)
	if id.New {
		own = diagnose(noted, "there is none yet in "+c.Host.StateDir, "the first start makes one; name Nova's compute_id in agent.host.uuid_file where nova-compute runs")
	}
	return append(out, own.named("host's uuid")...)
}

func checkOpenFiles(*localProcess) results {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return diagnose(warned, "the limit is not known: "+err.Error(), "look at ulimit -n")
	}
	return atLeast(files.Cur, leastFiles, manyFiles, fmt.Sprintf("at most %d", files.Cur), fmt.Sprintf("ulimit -n %d; with systemd, LimitNOFILE=%d", manyFiles, manyFiles))
}
