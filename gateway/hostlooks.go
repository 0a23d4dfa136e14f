package gateway

import (
	"slices"
	"sync"
	"time"

	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// mostHostsTold bounds the hosts of a report, maxDetail what is told of each.
const mostHostsTold, maxDetail = 16, 1000

// hostLooks keeps what the newest look at each host found, in the epoch of a gate. The
// hosts are looked at in turn with what they have free, busy or not: no claim changes
// what is compared of them. Safe for concurrent use.
type hostLooks struct {
	read HypervisorRead

	mu    sync.Mutex
	epoch int64
	of    map[schedule.ID]hostLook
}

// hostLook is how an agent's host differs from its row; empty for not at all.
type hostLook struct{ names, capacity, aggregates, hypervisor string }

// took takes the cell's answer, under an epoch of its gate, of the hosts asked for, 16
// bytes each. A host that the cell does not have is none of an agent's: whether it has to
// be is the cell's to know.
func (l *hostLooks) took(rows *knownRows, epoch int64, asked []byte, p *cellv1.Proposal) {
	if rows == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil || l.epoch != epoch {
		l.epoch, l.of = epoch, map[schedule.ID]hostLook{}
	}
	absent := make(map[schedule.ID]bool, len(asked)/16)
	for id := range slices.Chunk(asked, 16) {
		absent[schedule.ID(id)] = true
	}
	supported := make([][][3]string, len(p.GetRoomHypervisors()))
	for i, h := range p.GetRoomHypervisors() {
		supported[i] = Supported(h.GetSupportedInstances())
	}
	for _, h := range p.GetRooms() {
		id, err := schedule.ParseID(h.GetHostUuid())
		if err != nil {
			continue
		}
		delete(absent, id)
		at := int(h.GetHypervisor())
		if row := rows.host(id); row != nil && h.GetWhole() && h.GetServiceHost() != "" && at >= 0 && at < len(supported) {
			look := lookAt(row, h, p.GetRoomAggregates(), rows.HasAggregates)
			look.names = NamesDifference(&row.Host, h.GetServiceHost(), h.GetNodename())
			look.hypervisor, _ = HypervisorDifference(&row.Host, p.GetRoomHypervisors()[at], supported[at], l.read)
			l.of[id] = look
		}
	}
	for id := range absent {
		l.of[id] = hostLook{}
	}
}

// lookAt compares the capacity, and the aggregates when those of the rows are known.
func lookAt(row *legacy.Host, h *cellv1.HostRoom, aggregates []*cellgatev1.HostAggregate, known bool) hostLook {
	var classes []ReportedClass
	for _, r := range h.GetRooms() {
		c := ReportedClass{r.GetResourceClass(), r.GetTotal(), r.GetReserved(), r.GetAllocationRatio()}
		if row.DiskMeasured && c.Class == "DISK_GB" {
			c.Reserved = 0 // measuredDisks has what is free
		}
		classes = append(classes, c)
	}
	out := hostLook{capacity: CapacityDifference(&row.View, classes)}
	if known {
		var in []*cellgatev1.HostAggregate
		for _, at := range h.GetAggregates() {
			if int(at) < len(aggregates) && at >= 0 {
				in = append(in, aggregates[at])
			}
		}
		out.aggregates = AggregatesDifference(row.Aggregates, in)
	}
	return out
}

// comparison is what is told to the cell, at a time of the server; nil when nothing was
// looked at. Only hosts whose services count are in it: nobody can correct what the agent
// of a dead machine reported.
func (l *hostLooks) comparison(rows *knownRows, now time.Time, down time.Duration) *cellv1.HostComparison {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rows == nil || l.of == nil {
		return nil
	}
	services := make(map[int64]*legacy.Service, len(rows.Services))
	for i := range rows.Services {
		services[rows.Services[i].ID] = &rows.Services[i]
	}
	out := &cellv1.HostComparison{GateEpoch: l.epoch}
	for i := range rows.Hosts {
		row := &rows.Hosts[i]
		if s := services[row.ServiceID]; s != nil && !serviceCounts(rows.Snapshot, s, now, down) {
			continue
		}
		out.Hosts++
		look, is := l.of[row.UUID]
		if !is {
			continue
		}
		if out.LookedAt++; look == (hostLook{}) {
			continue
		}
		out.Differ++
		for _, d := range []*cellgatev1.HostDifference{
			{Kind: cellgatev1.HostDifference_NAMES, Detail: look.names},
			{Kind: cellgatev1.HostDifference_CAPACITY, Detail: look.capacity},
			{Kind: cellgatev1.HostDifference_AGGREGATES, Detail: look.aggregates},
			{Kind: cellgatev1.HostDifference_HYPERVISOR, Detail: look.hypervisor},
		} {
			if d.Detail != "" && len(out.First) < mostHostsTold {
				d.Host, d.Detail = row.ServiceHost, cutText(d.Detail, maxDetail)
				out.First = append(out.First, d)
			}
		}
	}
	return out
}

// serviceCounts is the cell's rule of which services hold its gate.
func serviceCounts(x *legacy.Snapshot, s *legacy.Service, now time.Time, down time.Duration) bool {
	switch {
	case s.ForcedDown:
		return false
	case x.Up(s, now, down):
		return true
	}
	return !s.Disabled && !s.LastSeenUp.IsZero() && now.Sub(s.LastSeenUp) < 2*down
}
