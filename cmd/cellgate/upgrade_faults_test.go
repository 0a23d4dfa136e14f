package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// upgradeFaults is what the demonstration breaks during the upgrade.
type upgradeFaults struct {
	u    *upgradeSystem
	load *upgradeLoad
}

func (f *upgradeFaults) gateway(i int) *member { return f.u.members[len(f.u.cells)+i] }

// stop ends a gateway as an operator does.
func (f *upgradeFaults) stop(i int) {
	f.u.t.Helper()
	m := f.gateway(i)
	if err := m.signal(syscall.SIGTERM); err != nil {
		f.u.t.Errorf("%s: %v\n%s", m.name, err, m.tail())
	}
}

func (f *upgradeFaults) restartGateway(i int) {
	f.u.t.Helper()
	mended := f.load.breaks()
	f.u.say("%s: stopped", f.gateway(i).name)
	f.stop(i)
	f.gateway(i).start()
	f.awaitAvailable(f.u.conns[i])
	f.u.say("%s: answers again, for every cell", f.gateway(i).name)
	mended()
}

func (f *upgradeFaults) killCell(i int) {
	f.u.t.Helper()
	mended := f.load.breaks()
	f.u.members[i].kill()
	f.u.say("%s: killed", f.u.cells[i].name)
	f.u.members[i].start()
	for _, conn := range f.u.conns {
		f.awaitAvailable(conn)
	}
	f.u.say("%s: answers again", f.u.cells[i].name)
	mended()
}

// rollBackUnseen stops all gateways, rolls a compute back and ends an instance on it that is not
// part of the load. When the gateways start, none remembers that the compute was new. The cell
// falls back, the host is imported, and the claim of the ended instance is released.
func (f *upgradeFaults) rollBackUnseen(c *demoCell) {
	u := f.u
	u.t.Helper()
	k, mended := c.order()[len(c.computes)/3], f.load.breaks()
	for i := range u.conns {
		f.stop(i)
	}
	u.say("no gateway runs; %s: rolled back, one of its instances ended", k.host)
	k.downgrade()
	ended := k.lasting()
	k.destroy(ended)
	for i := range u.conns {
		f.gateway(i).start()
	}
	began := time.Now()
	for _, conn := range u.conns {
		u.awaitAt(conn, c.name+" fell back", func(states map[string]*cellgatev1.Gate) bool {
			return states[c.name].GetState() == cellgatev1.Gate_LEGACY
		})
		f.awaitAvailable(conn)
	}
	u.say("gateways answer, %s is LEGACY, %v after they were started", c.name, time.Since(began).Round(10*time.Millisecond))
	mended()
	end := began.Add(testwait.Limit)
	for {
		ctx, cancel := context.WithTimeout(u.t.Context(), testwait.Limit)
		_, err := cellgatev1.NewClaimsClient(u.conns[0]).GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: ended})
		cancel()
		if fault.KindOf(err) == fault.NotFound {
			break
		}
		if time.Now().After(end) {
			u.t.Errorf("%s: the claim of %s, which has ended, is there after %v: %v", k.host, ended, time.Since(began), err)
			break
		}
		hold(u.t.Context(), 100*time.Millisecond)
	}
	u.say("%s: imported again, the claim of the ended instance is gone, %v after the gateways were started", k.host, time.Since(began).Round(100*time.Millisecond))
}

// lasting returns an instance that existed before the load.
func (k *compute) lasting() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.instances {
		if strings.HasPrefix(id, fmt.Sprintf("d%07d-", k.cell.number)) {
			return id
		}
	}
	k.cell.t.Errorf("%s has no instance of before", k.host)
	return ""
}

// awaitAvailable waits until a gateway can ask every cell.
func (f *upgradeFaults) awaitAvailable(conn *grpc.ClientConn) {
	f.u.t.Helper()
	end := time.Now().Add(testwait.Limit)
	for {
		ctx, cancel := context.WithTimeout(f.u.t.Context(), testwait.Limit)
		list, err := cellgatev1.NewCellsClient(conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
		cancel()
		available := 0
		for _, c := range list.GetCells() {
			if c.GetAvailable() && c.GetGate().GetState() != cellgatev1.Gate_STATE_UNSPECIFIED {
				available++
			}
		}
		if available == len(f.u.cells) {
			return
		}
		if time.Now().After(end) {
			f.u.t.Fatalf("not every cell is available within %v: %v, %v", testwait.Limit, list, err)
		}
		hold(f.u.t.Context(), 50*time.Millisecond)
	}
}
