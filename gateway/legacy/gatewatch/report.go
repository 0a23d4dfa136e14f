package gatewatch

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// gateReport has what a gateway reports to a cell of its legacy database.
type gateReport struct {
	// gateway identifies this incarnation of the gateway, name is its name for people.
	gateway, name string
	// revision is that of services, 0 before the first; sent: some replica has received it.
	revision uint64
	services []*cellv1.LegacyService
	sent     bool
	// sending: the report under way has the services, or their revision. doubted: the last
	// report had neither, since the rows were not current.
	sending, doubted bool
	// unreadable is why there are no services; leftOut counts rows that are no hosts.
	unreadable string
	leftOut    int32
	// readTo is the newest time in the rows; zero for none.
	readTo time.Time
}

// readable reports whether the services were read, or there is a reason why not. Before that,
// a request only asks for the gate.
func (r *gateReport) readable() bool { return r.revision > 0 || r.unreadable != "" }

// request makes the message of a report. doubt is why the services that were read are not
// current; "" if they are. With a doubt, the report has no services, as if they could not be
// read.
func (r *gateReport) request(required int, importer, look bool, doubt string) *cellv1.ReportLegacyRequest {
	req := &cellv1.ReportLegacyRequest{Gateway: r.gateway, GatewayName: r.name, Importer: importer, Look: look || !r.readable(), RequiredVersion: int32(required)}
	if req.GetLook() {
		return req
	}
	if !r.readTo.IsZero() {
		req.ReadTo = timestamppb.New(r.readTo)
	}
	r.doubted = doubt != ""
	if why := cmp.Or(r.unreadable, doubt); why != "" {
		req.Unreadable = strings.ToValidUTF8(why[:min(len(why), 1000)], "")
		return req
	}
	r.sending = true
	req.Revision, req.LeftOut, req.Unchanged = r.revision, r.leftOut, r.sent
	if !r.sent {
		req.Services = r.services
	}
	return req
}

// noteOutcome notes whether a report arrived: if not, the next one repeats its services.
func (r *gateReport) noteOutcome(err error) {
	r.sent = r.sent || err == nil && r.sending
	r.sending = false
}

// heartbeatEvery is how old the times of heartbeats in a cell may get. They change all the
// time, and add nothing to Up.
const heartbeatEvery = time.Minute

// update stores newer rows. It reports whether a report is due at once, because something
// that moves the gate has changed.
func (r *gateReport) update(x *novadb.Snapshot, now time.Time, down time.Duration) bool {
	services := servicesOf(x, now, down)
	news := r.unreadable != "" || r.doubted || r.revision == 0 || !slices.EqualFunc(services, r.services, sameService)
	old := len(services) > 0 && len(r.services) > 0 && !news &&
		slices.ContainsFunc(services, func(s *cellv1.LegacyService) bool { return s.GetUp() }) &&
		latest(services).Sub(latest(r.services)) > heartbeatEvery
	r.unreadable, r.leftOut, r.readTo = "", 0, x.Written
	for _, n := range x.LeftOutBy {
		r.leftOut += int32(n)
	}
	if news || old {
		r.services, r.sent = services, false
		r.revision++
	}
	return news
}

// latest is the newest heartbeat.
func latest(services []*cellv1.LegacyService) time.Time {
	var at time.Time
	for _, s := range services {
		if t := s.GetLastSeen(); t != nil && t.AsTime().After(at) {
			at = t.AsTime()
		}
	}
	return at
}

func sameService(a, b *cellv1.LegacyService) bool {
	return a.GetHost() == b.GetHost() && a.GetVersion() == b.GetVersion() && a.GetDisabled() == b.GetDisabled() &&
		a.GetForcedDown() == b.GetForcedDown() && a.GetUp() == b.GetUp() && a.GetDisabledReason() == b.GetDisabledReason() && slices.Equal(a.GetNodeUuids(), b.GetNodeUuids()) &&
		slices.Equal(a.GetLeftOutUuids(), b.GetLeftOutUuids())
}

// servicesOf gives the live services of rows, with the compute nodes of each.
func servicesOf(x *novadb.Snapshot, now time.Time, down time.Duration) []*cellv1.LegacyService {
	nodes := map[int64][]string{}
	for i := range x.Hosts {
		id := x.Hosts[i].ServiceID
		nodes[id] = append(nodes[id], x.Hosts[i].UUID.String())
	}
	out := make([]*cellv1.LegacyService, len(x.Services))
	for i := range x.Services {
		s := &x.Services[i]
		out[i] = &cellv1.LegacyService{
			Host: s.Name(), Version: int32(s.Version), Disabled: s.Disabled, DisabledReason: reasonText(s.DisabledReason), ForcedDown: s.ForcedDown, Up: x.Up(s, now, down), NodeUuids: nodes[s.ID],
		}
		for _, id := range x.Unusable[s.ID] {
			out[i].LeftOutUuids = append(out[i].LeftOutUuids, id.String())
		}
		if !s.LastSeenUp.IsZero() {
			out[i].LastSeen = timestamppb.New(s.LastSeenUp)
		}
	}
	return out
}

// maxReason bounds the characters of a service's reason in a report.
const maxReason = 255

// reasonText gives a reason in the form that a cell accepts: one line of at most maxReason characters.
func reasonText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if runes := []rune(text); len(runes) > maxReason {
		text = string(runes[:maxReason-1]) + "…"
	}
	return strings.TrimSpace(text)
}

// noteUnread records why the rows could not be read. It reports whether they could be read before.
func (r *gateReport) noteUnread(why string) bool {
	news := r.unreadable == ""
	r.unreadable = why
	return news
}
