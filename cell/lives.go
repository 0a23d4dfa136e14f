package cell

import (
	"fmt"
	"slices"
	"strings"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// A host may have streams of two agent lives: that of an agent that died stays open while
// nobody knows, and what it said may be read, or written, late; or two agents report the host.
// The shard knows no order of lives. So a state replaces another life's row only when its agent
// was asked for it because of that row (askOver): who died before the row was written cannot
// answer. What a life says while a later stream of another one speaks for the host is not
// written at all; and the stream that speaks for the host looks, at each heartbeat, whether the
// row is its own, and asks its agent for the state again when it is not, as when two agents
// live. So does an agent that went back to an earlier moment of its own life, as one whose
// machine was restored with its memory: its states are older than the row, and none is written
// until it is asked for one above that.

// askOver asks the agent for its state over another life's row. What it said before is of an
// epoch that is over.
func (a *agentSession) askOver(boot string) *agentv1.ReportResponse {
	a.asked = boot
	return resync(a.epoch.Add(1), "the host's row is of agent life "+boot, 0)
}

// statement is what a stream's newest accepted state is.
type statement struct {
	shard.Registration
	serviceHost string
	// follows: the agent asked another replica to write the state.
	follows bool
	// back is the version of the row that the agent was found behind; 0 for none.
	back uint64
}

func statementOf(s *agentv1.FullState) *statement {
	return &statement{
		Registration: shard.Registration{BootID: strings.ToLower(s.GetBootId()), StateVersion: s.GetVersion()},
		serviceHost:  s.GetServiceHost(), follows: s.GetFollow(),
	}
}

// isIn reports whether a row is that state, or a later one of its life.
func (w *statement) isIn(h *shard.Host) bool {
	return h.BootID == w.BootID && h.StateVersion >= w.StateVersion
}

// wentBack reports whether a row is a later state of the life than its agent knows of.
func (w *statement) wentBack(h *shard.Host) bool {
	return h.BootID == w.BootID && w.StateVersion < w.back && h.StateVersion >= w.back
}

// losing is since when a host's row is not what its agent said; the zero value while it is.
// behind is the row's version then, where the row is the same life's.
type losing struct {
	at     time.Time
	behind uint64
}

// next goes by what the row is now. A later state of the same life may be on its way on this
// stream: it begins anew with one that reaches what the row was.
func (l losing) next(said *statement, row *shard.Host, now time.Time) losing {
	var behind uint64
	if said.isIn(row) {
		if row.StateVersion == said.StateVersion {
			return losing{}
		}
		behind = row.StateVersion
	}
	if !l.at.IsZero() && (l.behind > 0) == (behind > 0) && (behind == 0 || said.StateVersion < l.behind) {
		return l
	}
	return losing{at: now, behind: behind}
}

// regain asks the agent for its state again when the host's row is another life's, or a later
// one of its own life than it knows of: from the second heartbeat on that finds it so, since
// one agent may be about to follow another, and a state may be on its way. A replica that the agent did not ask to write leaves it for a while to the one that it did.
// One that cannot read the journal does not know the row: what it accepted may be there.
func (a *agentSession) regain() *agentv1.ReportResponse {
	row := a.rows.host(a.host)
	if a.taking || row == nil || row.host == nil || row.host.Imported || !a.sessions.speaks(a.host, a) {
		a.lost = losing{}
		return nil
	}
	if s := a.newest(); s.GetVerifies() {
		a.verify.begin(a, s) // another stream of the host may have been told of claims till now
	}
	said, now := a.said.Load(), a.now()
	if a.refusal != nil && row.host.BootID == said.BootID {
		// The row is of its life, of whichever version: what it says besides is refused.
		a.lost = losing{}
		a.back.Store(0)
		return nil
	}
	if a.lost = a.lost.next(said, row.host, now); a.lost.at.IsZero() {
		a.back.Store(0)
		return nil
	}
	after := a.cfg.HeartbeatEvery / 2
	if said.follows {
		after += 2 * a.cfg.HeartbeatEvery
	}
	if now.Sub(a.lost.at) < after || time.Since(a.journal.lastEnd()) > maxBehind {
		return nil
	}
	a.back.Store(a.lost.behind)
	if !a.sessions.mayAsk(a.host, 2*a.cfg.HeartbeatEvery, max(a.cfg.MaxAsking, 2*a.cfg.HeartbeatEvery)) {
		return nil
	}
	why := "the host's row is " + lifeText(row.host.Registration(), row.host.ServiceHost)
	a.log.Warn("audit: a host's agent was asked to report anew", "host", said.serviceHost, "host_uuid", a.host, "because", why,
		"boot_id", said.BootID, "version", said.StateVersion)
	if row.host.BootID != said.BootID {
		a.asked = row.host.BootID
	}
	return a.renewal(why, 0, row.host)
}

// renewal asks for the whole state as a new version, above that of a row of the same life;
// nil for no row.
func (a *agentSession) renewal(why string, within time.Duration, row *shard.Host) *agentv1.ReportResponse {
	m := resync(a.epoch.Add(1), why, within)
	m.GetResync().Renew = true
	if said := a.said.Load(); row != nil && said != nil && row.BootID == said.BootID {
		m.GetResync().Above = row.StateVersion
	}
	return m
}

func lifeText(r shard.Registration, serviceHost string) string {
	return fmt.Sprintf("of agent life %s (service host %s, version %d)", r.BootID, serviceHost, r.StateVersion)
}

// asking is when an agent of a host was last asked for what another life had overwritten,
// and how long until the next time.
type asking struct {
	at   time.Time
	wait time.Duration
}

// mayAsk notes that an agent of a host is asked, and says whether it is time: two agents
// that live overwrite each other ever more seldom, from least to most apart. A host of which
// none was asked for twice the most begins anew.
func (s *sessions) mayAsk(host string, least, most time.Duration) bool {
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

// lastAsked is when an agent of a host was last asked, zero for never.
func (s *sessions) lastAsked(host string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[host].at
}

// lives reports whether a stream's agent was heard lately.
func (s *sessions) lives(a *agentSession) bool {
	if s.silentFor == 0 {
		return true
	}
	heard := a.heard.Load()
	return heard != nil && s.now().Sub(*heard) <= s.silentFor
}

// speakerLocked gives the stream that speaks for a host, nil for none: of those whose agents
// were heard lately the one that was opened last, or of all when none was.
func (s *sessions) speakerLocked(host string) *agentSession {
	list := s.byHost[host]
	for _, a := range slices.Backward(list) {
		if s.lives(a) {
			return a
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// outlived reports whether what an agent life says on a stream is another one's to say: the
// stream that speaks for the host was opened later, by another life. That one's end is
// noticed, and who stays is asked for its state (regain).
func (s *sessions) outlived(host string, opened uint64, boot string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.speakerLocked(host)
	if by == nil || by.opened <= opened || !s.lives(by) {
		return false
	}
	said := by.said.Load()
	return said != nil && said.BootID != boot
}

// speaksSince is when the stream was opened that speaks for a host; 0 for none.
func (s *sessions) speaksSince(host string) (opened uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.speakerLocked(host); a != nil {
		opened = a.opened
	}
	return opened
}

// speaks reports whether a stream speaks for a host.
func (s *sessions) speaks(host string, a *agentSession) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.speakerLocked(host) == a
}

// statements gives what the agents of a host that were heard lately said, the newest stream's
// first.
func (s *sessions) statements(host string) (list []*statement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range slices.Backward(s.byHost[host]) {
		if w := a.said.Load(); w != nil && s.lives(a) {
			n := *w
			n.back = a.back.Load()
			list = append(list, &n)
		}
	}
	return list
}

// otherLife says that a host's row is another life's than an agent's that is heard here, or
// a later one of that life than the agent knows of; nil when it is not.
func (s *agentService) otherLife(row *hostRow) *cellgatev1.Finding {
	if row == nil || row.host == nil || row.host.Imported {
		return nil
	}
	for _, w := range s.sessions.statements(row.host.UUID) {
		if !w.isIn(row.host) || w.wentBack(row.host) {
			return &cellgatev1.Finding{
				Kind: cellgatev1.Finding_HOST_DIFFERS, HostUuid: row.host.UUID, ServiceHost: row.host.ServiceHost,
				Detail: "the row is " + lifeText(row.host.Registration(), row.host.ServiceHost) + ", and an agent that is heard here is " + lifeText(w.Registration, w.serviceHost),
			}
		}
	}
	return nil
}
