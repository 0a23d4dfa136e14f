package agents

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cellgate/cell/replica"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// A host may have streams of two agent incarnations: a dead agent's stream stays open for a while, and
// its last state may be read or written late; or two agents report the host. The shard cannot tell
// which incarnation is newer. So a state replaces another incarnation's row only if the replica asked
// the agent for the state because of that row (askOver): an agent that died before the row was written
// cannot answer. States of an incarnation are not written while a later stream of another one is
// active. At each heartbeat the replica compares the row with the state of the active stream. If they
// differ, as while two agents run, it asks the agent for the state again.

// askOver asks the agent for its state, to replace another incarnation's row. The new epoch voids the
// agent's earlier reports.
func (a *stream) askOver(boot string) *agentv1.ReportResponse {
	a.askedOver = boot
	return resync(a.epoch.Add(1), "the host's row is of agent incarnation "+boot, 0)
}

// reportSummary identifies the newest accepted state of a stream.
type reportSummary struct {
	shard.Registration
	serviceHost string
	// follows: the agent asked another replica to write the state.
	follows bool
}

func summaryOf(s *agentv1.FullState) *reportSummary {
	return &reportSummary{
		Registration: shard.Registration{BootID: strings.ToLower(s.GetBootId()), StateVersion: s.GetVersion()},
		serviceHost:  s.GetServiceHost(), follows: s.GetFollow(),
	}
}

// isIn reports whether a row holds this state, or a later one of the same incarnation.
func (w *reportSummary) isIn(h *shard.Host) bool {
	return h.BootID == w.BootID && h.StateVersion >= w.StateVersion
}

// askForLostState asks the agent for its state again if another incarnation's row has replaced it. The
// first such heartbeat is ignored, since one agent may be about to succeed the other. A replica that
// the agent did not ask to write waits longer, for the replica that it did ask. A replica that cannot
// read the journal does not ask: it may not know the newest row.
func (a *stream) askForLostState() *agentv1.ReportResponse {
	row := a.rows.Host(a.host)
	if a.registering || row == nil || row.Host == nil || row.Host.Imported || !a.Streams.isActive(a.host, a) {
		a.lostSince = time.Time{}
		return nil
	}
	if s := a.newest(); s.GetVerifies() {
		a.Verify.addStream(a, s) // another stream of the host may have been sent claims till now
	}
	last, now := a.lastReport.Load(), a.now()
	if last.isIn(row.Host) || a.refusal != nil && row.Host.BootID == last.BootID {
		a.lostSince = time.Time{}
		return nil
	}
	if a.lostSince.IsZero() {
		a.lostSince = now
	}
	after := a.cfg.HeartbeatEvery / 2
	if last.follows {
		after += 2 * a.cfg.HeartbeatEvery
	}
	if now.Sub(a.lostSince) < after || time.Since(a.journal.LastEnd()) > replica.MaxBehind {
		return nil
	}
	if !a.Streams.mayAskAgain(a.host, 2*a.cfg.HeartbeatEvery, max(a.cfg.MaxAsking, 2*a.cfg.HeartbeatEvery)) {
		return nil
	}
	why := "the host's row is " + incarnationText(row.Host.Registration(), row.Host.ServiceHost)
	a.log.Warn("audit: a host's agent was asked to report anew", "host", last.serviceHost, "host_uuid", a.host, "because", why,
		"boot_id", last.BootID, "version", last.StateVersion)
	if row.Host.BootID != last.BootID {
		a.askedOver = row.Host.BootID
	}
	return a.renewal(why, 0, row.Host)
}

// renewal asks for the whole state as a new version. If row is of the same incarnation, the version
// must be above the row's; row may be nil.
func (a *stream) renewal(why string, within time.Duration, row *shard.Host) *agentv1.ReportResponse {
	m := resync(a.epoch.Add(1), why, within)
	m.GetResync().Renew = true
	if last := a.lastReport.Load(); row != nil && last != nil && row.BootID == last.BootID {
		m.GetResync().Above = row.StateVersion
	}
	return m
}

func incarnationText(r shard.Registration, serviceHost string) string {
	return fmt.Sprintf("of agent incarnation %s (service host %s, version %d)", r.BootID, serviceHost, r.StateVersion)
}

// asking records when an agent of a host was last asked for a state that another incarnation had
// overwritten, and how long to wait before the next request.
type asking struct {
	at   time.Time
	wait time.Duration
}

// mayAskAgain reports whether an agent of a host may be asked now, and records the request. The
// interval doubles from least to most, so that two running agents overwrite each other less and less
// often. After 2 × most without a request, it is least again.
func (s *Streams) mayAskAgain(host string, least, most time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	before, asked := s.asked[host]
	since := now.Sub(before.at)
	switch {
	case !asked, since < 0, since > 2*most:
		s.asked[host] = asking{at: now, wait: least}
	case since < before.wait:
		return false
	default:
		s.asked[host] = asking{at: now, wait: min(2*before.wait, most)}
	}
	return true
}

// LastAsked is when an agent of a host was last asked, zero for never.
func (s *Streams) LastAsked(host string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[host].at
}

// isUp reports whether a stream's agent has sent something within silentFor.
func (s *Streams) isUp(a *stream) bool {
	if s.silentFor == 0 {
		return true
	}
	seen := a.lastSeen.Load()
	return seen != nil && s.now().Sub(*seen) <= s.silentFor
}

// activeLocked gives the active stream of a host, nil for none: the one opened last of those
// that are up, or of all when none is.
func (s *Streams) activeLocked(host string) *stream {
	list := s.byHost[host]
	for _, a := range slices.Backward(list) {
		if s.isUp(a) {
			return a
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// superseded reports whether another incarnation opened the active stream of the host later than a
// given stream, whose states are then not written. When the active stream ends, the agent of the
// remaining stream is asked for its state (askForLostState).
func (s *Streams) superseded(host string, opened uint64, boot string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.activeLocked(host)
	if by == nil || by.opened <= opened || !s.isUp(by) {
		return false
	}
	last := by.lastReport.Load()
	return last != nil && last.BootID != boot
}

// activeSince is when the active stream of a host was opened; 0 for none.
func (s *Streams) activeSince(host string) (opened uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.activeLocked(host); a != nil {
		opened = a.opened
	}
	return opened
}

// isActive reports whether a stream is the one whose reports count for a host.
func (s *Streams) isActive(host string, a *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.activeLocked(host) == a
}

// lastReports gives the last reports on the streams of a host that are up, the newest stream's first.
func (s *Streams) lastReports(host string) (list []*reportSummary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range slices.Backward(s.byHost[host]) {
		if w := a.lastReport.Load(); w != nil && s.isUp(a) {
			list = append(list, w)
		}
	}
	return list
}

// OtherIncarnation returns the finding that a host's row is of another incarnation, or of an earlier
// state, than the last report of an agent that is up here. It returns nil if the row matches.
func (s *Service) OtherIncarnation(row *replica.HostRow) *cellgatev1.Finding {
	if row == nil || row.Host == nil || row.Host.Imported {
		return nil
	}
	for _, w := range s.Streams.lastReports(row.Host.UUID) {
		if !w.isIn(row.Host) {
			return &cellgatev1.Finding{
				Kind: cellgatev1.Finding_HOST_DIFFERS, HostUuid: row.Host.UUID, ServiceHost: row.Host.ServiceHost,
				Detail: "the row is " + incarnationText(row.Host.Registration(), row.Host.ServiceHost) + ", and an agent that reports here is " + incarnationText(w.Registration, w.serviceHost),
			}
		}
	}
	return nil
}
