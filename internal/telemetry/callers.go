package telemetry

import (
	"sync"
	"time"
)

// callers is the telemetry of access control in a process's servers and clients. There may be several
// of each: their counts are added up, and of the ends of certificates the first is kept.
type callers struct {
	mu   sync.Mutex
	read []func(*callerCounts)
}

type callerCounts struct {
	servers int
	held    int64
	byLimit map[string]uint64
	refused map[[2]string]uint64
	ends    map[string]time.Time
}

func (p *Process) watchCallers(read func(*callerCounts)) {
	if p == nil {
		return
	}
	p.callers.mu.Lock()
	defer p.callers.mu.Unlock()
	p.callers.read = append(p.callers.read, read)
}

// WatchIngress reads, at each scrape, the bytes of requests that a server holds, and how often its
// limits refused. refused calls each once for a limit.
func (p *Process) WatchIngress(held func() int64, refused func(each func(limit string, n uint64))) {
	p.watchCallers(func(c *callerCounts) {
		c.servers++
		c.held += held()
		refused(func(limit string, n uint64) { c.byLimit[inList(labelLimit, limit)] += n })
	})
}

// WatchRefused reads, at each scrape, how often a server refused callers. read calls each once for a
// method and a reason, which is an error's kind.
func (p *Process) WatchRefused(read func(each func(method, reason string, n uint64))) {
	p.watchCallers(func(c *callerCounts) {
		read(func(method, reason string, n uint64) { c.refused[[2]string{method, inList(labelRefusal, reason)}] += n })
	})
}

// WatchCertificates reads, at each scrape, when the certificates in files end.
func (p *Process) WatchCertificates(read func(each func(use Certificate, end time.Time))) {
	p.watchCallers(func(c *callerCounts) {
		read(func(use Certificate, end time.Time) {
			name := inList(labelFile, string(use))
			if at, there := c.ends[name]; !there || end.Before(at) {
				c.ends[name] = end
			}
		})
	})
}

func (c *callers) emit(emit Emit) {
	c.mu.Lock()
	all := c.read[:len(c.read):len(c.read)]
	c.mu.Unlock()
	sum := callerCounts{byLimit: map[string]uint64{}, refused: map[[2]string]uint64{}, ends: map[string]time.Time{}}
	for _, read := range all {
		read(&sum)
	}
	if sum.servers > 0 {
		emit(ingressBytes, float64(sum.held))
	}
	for limit, n := range sum.byLimit {
		emit(ingressRefused, float64(n), limit)
	}
	for of, n := range sum.refused {
		emit(callersRefused, float64(n), of[0], of[1])
	}
	for use, end := range sum.ends {
		emit(certificateEnd, float64(end.Unix()), use)
	}
}
