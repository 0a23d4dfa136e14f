package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// askReaders asks every replica which gateways report to it; one has said g already, as the
// first. Of a gateway that reported to two the newer reading counts.
func (u *upgrade) askReaders(ctx context.Context, r *replicas, g *cellgatev1.Gate) {
	u.readers = map[string]*cellgatev1.GateReader{}
	said := slices.Clone(g.GetReaders())
	for _, c := range r.clients[1:] {
		if resp, err := c.ReportLegacy(ctx, &cellv1.ReportLegacyRequest{Gateway: "cellgate doctor", Look: true}); err == nil {
			said = append(said, resp.GetGate().GetReaders()...)
		}
	}
	for _, one := range said {
		if old := u.readers[one.GetGateway()]; old == nil || one.GetReadTo().AsTime().After(old.GetReadTo().AsTime()) {
			u.readers[one.GetGateway()] = one
		}
	}
}

// behind tells which gateways read a copy of the legacy database that is behind, by what they
// have reported to any replica, and by what the doctor reads: each replica knows of those alone
// that report to it.
func (u *upgrade) behind() {
	newest := u.readTo
	for _, r := range u.readers {
		if to := r.GetReadTo(); to != nil && to.AsTime().After(newest) {
			newest = to.AsTime()
		}
	}
	most := cmp.Or(u.conf.ServiceDownTime, time.Minute) / 2
	if lag := newest.Sub(u.readTo); !u.readTo.IsZero() && lag > most {
		u.say("age of the legacy database", warned, fmt.Sprintf("its newest row is %v older than what a gateway has read: it is a copy that is behind", lag.Round(time.Second)),
			"bring its replication up to date, or name another server in gateway.legacy; what is said here of its rows is that old")
	}
	u.unreading()
	var all []diagnosis
	oldest, reads := time.Duration(0), 0
	for _, name := range slices.Sorted(maps.Keys(u.readers)) {
		r, lag := u.readers[name], time.Duration(0)
		if r.GetReadTo() != nil {
			lag = newest.Sub(r.GetReadTo().AsTime())
			r.Lag = durationpb.New(lag)
		}
		if r.GetUnreadable() != "" {
			continue
		}
		reads++
		if r.GetBehindSince() == nil && lag <= most {
			oldest = max(oldest, lag)
			continue
		}
		all = append(all, diagnosis{
			Check: "gateway " + name, What: behindText(r),
			Do: "bring the replication of the database in its gateway.legacy up to date, or name another server there; nothing that newer rows said is taken back meanwhile",
		})
	}
	u.each("gateways that are behind", warned, all)
	if reads > 0 && len(all) == 0 {
		u.doctor.ok(u.conf.Cell+" gateways", "%s, the oldest up to %v before the newest", reporting(reads), oldest.Round(time.Second))
	}
}

// unreading tells which gateways cannot read the tables: their reports hold the gate while it is
// LEGACY or SHADOW.
func (u *upgrade) unreading() {
	status, means := unhealthy, "it has no answer for the cell, and its report holds the gate"
	if u.native {
		status, means = warned, "it answers from agents' reports, as the cell is NATIVE, hears of no host that Nova's operators take out of service, and would have no answer if the gate closed"
	}
	var all []diagnosis
	for _, name := range slices.Sorted(maps.Keys(u.readers)) {
		if why := u.readers[name].GetUnreadable(); why != "" {
			all = append(all, diagnosis{
				Check: "gateway " + name, What: "cannot read the legacy database: " + printable(why) + "; " + means,
				Do: "correct the way from that gateway to the database of its gateway.legacy: its address, user, password file, CA, or the server itself",
			})
		}
	}
	u.each("gateways that cannot read", status, all)
}

func reporting(n int) string {
	if n == 1 {
		return "1 reports what it reads of the tables"
	}
	return fmt.Sprintf("%d report what they read of the tables", n)
}
