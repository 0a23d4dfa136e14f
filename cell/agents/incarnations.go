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

// A host may have streams of two agent incarnations: that of an agent that died stays open while
// nobody knows, and what it said may be read, or written, late; or two agents report the host. The
// shard cannot tell which incarnation is newer. So a state replaces another incarnation's row only
// when its agent was asked for it because of that row (askOver): who died before the row was written
// cannot answer. What an incarnation says while a later stream of another one is active is not
// written at all. The active stream compares the row with its own state at each heartbeat, and asks
// its agent for the state again when they differ, as when two agents live.

// askOver asks the agent for its state over another incarnation's row. What it reported before is of an
// epoch that is over.
func (a *stream) askOver(boot string) *agentv1.ReportResponse {
	a.askedOver = boot
	return resync(a.epoch.Add(1), "the host's row is of agent incarnation "+boot, 0)
}

// reportSummary is what a stream's newest accepted state is.
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

// isIn reports whether a row is that state, or a later one of its incarnation.
func (w *reportSummary) isIn(h *shard.Host) bool {
	return h.BootID == w.BootID && h.StateVersion >= w.StateVersion
}

// askForLostState asks the agent for its state again when the host's row is another
// incarnation's: from the second heartbeat on that finds it so, since one agent may be about to
// follow another. A replica that the agent did not ask to write leaves it for a while to the one
// that it did. One that cannot read the journal does not know the row: what it accepted may be there.
func (a *stream) askForLostState() *agentv1.ReportResponse {
	row := a.rows.Host(a.host)
	if a.registering || row == nil || row.Host == nil || row.Host.Imported || !a.Streams.isActive(a.host, a) {
		a.lostSince = time.Time{}
		return nil
	}
	if s := a.newest(); s.GetVerifies() {
		a.Verify.addStream(a, s) // another stream of the host may have been sent claims till now
	}
	said, now := a.lastReport.Load(), a.now()
	if said.isIn(row.Host) || a.refusal != nil && row.Host.BootID == said.BootID {
		a.lostSince = time.Time{}
		return nil
	}
	if a.lostSince.IsZero() {
		a.lostSince = now
	}
	after := a.cfg.HeartbeatEvery / 2
	if said.follows {
		after += 2 * a.cfg.HeartbeatEvery
	}
	if now.Sub(a.lostSince) < after || time.Since(a.journal.LastEnd()) > replica.MaxBehind {
		return nil
	}
	if !a.Streams.mayAskAgain(a.host, 2*a.cfg.HeartbeatEvery, max(a.cfg.MaxAsking, 2*a.cfg.HeartbeatEvery)) {
		return nil
	}
	why := "the host's row is " + incarnationText(row.Host.Registration(), row.Host.ServiceHost)
	a.log.Warn("audit: a host's agent was asked to report anew", "host", said.serviceHost, "host_uuid", a.host, "because", why,
		"boot_id", said.BootID, "version", said.StateVersion)
	if row.Host.BootID != said.BootID {
		a.askedOver = row.Host.BootID
	}
	return a.renewal(why, 0, row.Host)
}

// renewal asks for the whole state as a new version, above that of a row of the same incarnation;
// nil for no row.
func (a *stream) renewal(why string, within time.Duration, row *shard.Host) *agentv1.ReportResponse {
	m := resync(a.epoch.Add(1), why, within)
	m.GetResync().Renew = true
	if said := a.lastReport.Load(); row != nil && said != nil && row.BootID == said.BootID {
		m.GetResync().Above = row.StateVersion
	}
	return m
}

func incarnationText(r shard.Registration, serviceHost string) string {
	return fmt.Sprintf("of agent incarnation %s (service host %s, version %d)", r.BootID, serviceHost, r.StateVersion)
}

// asking is when an agent of a host was last asked for what another incarnation had overwritten,
// and how long until the next time.
type asking struct {
	at   time.Time
	wait time.Duration
}

// mayAskAgain notes that an agent of a host is asked, and says whether it is time: two agents
// that live overwrite each other ever more seldom, from least to most apart. A host of which
// none was asked for twice the most begins again.
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

// isHeard reports whether a stream's agent was heard lately.
func (s *Streams) isHeard(a *stream) bool {
	if s.silentFor == 0 {
		return true
	}
	heard := a.heardAt.Load()
	return heard != nil && s.now().Sub(*heard) <= s.silentFor
}

// activeLocked gives the active stream of a host, nil for none: of those whose agents
// were heard lately the one that was opened last, or of all when none was.
func (s *Streams) activeLocked(host string) *stream {
	list := s.byHost[host]
	for _, a := range slices.Backward(list) {
		if s.isHeard(a) {
			return a
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// superseded reports whether what an agent incarnation says on a stream is another one's to say: the
// active stream of the host was opened later, by another incarnation. That one's end is
// noticed, and who stays is asked for its state (askForLostState).
func (s *Streams) superseded(host string, opened uint64, boot string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.activeLocked(host)
	if by == nil || by.opened <= opened || !s.isHeard(by) {
		return false
	}
	said := by.lastReport.Load()
	return said != nil && said.BootID != boot
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

// lastReports gives the last reports of the agents of a host that were heard lately, the newest stream's
// first.
func (s *Streams) lastReports(host string) (list []*reportSummary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range slices.Backward(s.byHost[host]) {
		if w := a.lastReport.Load(); w != nil && s.isHeard(a) {
			list = append(list, w)
		}
	}
	return list
}

// OtherIncarnation says that a host's row is another incarnation's than an agent's that is heard here, or
// a later one of that incarnation than the agent knows of; nil when it is not.
func (s *Service) OtherIncarnation(row *replica.HostRow) *cellgatev1.Finding {
	if row == nil || row.Host == nil || row.Host.Imported {
		return nil
	}
	for _, w := range s.Streams.lastReports(row.Host.UUID) {
		if !w.isIn(row.Host) {
			return &cellgatev1.Finding{
				Kind: cellgatev1.Finding_HOST_DIFFERS, HostUuid: row.Host.UUID, ServiceHost: row.Host.ServiceHost,
				Detail: "the row is " + incarnationText(row.Host.Registration(), row.Host.ServiceHost) + ", and an agent that is heard here is " + incarnationText(w.Registration, w.serviceHost),
			}
		}
	}
	return nil
}
