package telemetry

import (
	"sync"
	"time"
)

// callers is what is read at each scrape of a process's servers and clients. There may be several of
// each: the bytes that servers hold are added up, and of the ends of certificates the first counts.
type callers struct {
	mu   sync.Mutex
	held []func() int64
	ends []func(each func(use Certificate, end time.Time))
}

// WatchIngress reads, at each scrape, the bytes of requests that a server holds.
func (p *Process) WatchIngress(held func() int64) {
	if p == nil {
		return
	}
	p.own.show(ingressRefused)
	p.callers.mu.Lock()
	defer p.callers.mu.Unlock()
	p.callers.held = append(p.callers.held, held)
}

// WatchCertificates reads, at each scrape, when the certificates in files end.
func (p *Process) WatchCertificates(read func(each func(use Certificate, end time.Time))) {
	if p == nil {
		return
	}
	p.callers.mu.Lock()
	defer p.callers.mu.Unlock()
	p.callers.ends = append(p.callers.ends, read)
}

// IngressRefused counts a request or connection that a limit refused.
func (p *Process) IngressRefused(limit string) {
	if p != nil {
		p.own.add(ingressRefused, 1, inList(labelLimit, limit))
	}
}

// CallerRefused counts a refused caller of a method; reason is an error's kind.
func (p *Process) CallerRefused(method, reason string) {
	if p != nil {
		p.own.add(callersRefused, 1, method, inList(labelRefusal, reason))
	}
}

func (c *callers) emit(emit Emit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) > 0 {
		sum := int64(0)
		for _, held := range c.held {
			sum += held()
		}
		emit(ingressBytes, float64(sum))
	}
	first := map[string]time.Time{}
	for _, read := range c.ends {
		read(func(use Certificate, end time.Time) {
			name := inList(labelFile, string(use))
			if at, there := first[name]; !there || end.Before(at) {
				first[name] = end
			}
		})
	}
	for use, end := range first {
		emit(certificateEnd, float64(end.Unix()), use)
	}
}
