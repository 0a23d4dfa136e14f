package telemetry

import (
	"slices"
	"sync"
	"time"
)

// callers are what a process's servers and clients tell of who may call whom. There
// may be several of each; their counts are added up.
type callers struct {
	mu      sync.Mutex
	refused []func(each func(method, reason string, n uint64))
	ends    []func(each func(use Certificate, end time.Time))
	ingress []ingress
}

// ingress reads what a server holds of its callers.
type ingress struct {
	held    func() int64
	refused func(each func(limit string, n uint64))
}

// WatchIngress has the bytes of requests that a server holds read at each scrape, and what its
// limits refused; each is called once for a limit.
func (p *Process) WatchIngress(held func() int64, refused func(each func(limit string, n uint64))) {
	if p == nil {
		return
	}
	p.callers.mu.Lock()
	defer p.callers.mu.Unlock()
	p.callers.ingress = append(p.callers.ingress, ingress{held, refused})
}

// WatchRefused has the callers that a server refused read at each scrape; each is
// called once for a method and a reason, an error's kind.
func (p *Process) WatchRefused(read func(each func(method, reason string, n uint64))) {
	if p == nil {
		return
	}
	p.callers.mu.Lock()
	defer p.callers.mu.Unlock()
	p.callers.refused = append(p.callers.refused, read)
}

// WatchCertificates has the ends of files of certificates read at each scrape.
func (p *Process) WatchCertificates(read func(each func(use Certificate, end time.Time))) {
	if p == nil {
		return
	}
	p.callers.mu.Lock()
	defer p.callers.mu.Unlock()
	p.callers.ends = append(p.callers.ends, read)
}

func (c *callers) read(emit Emit) {
	c.mu.Lock()
	refused, ends, ingresses := slices.Clone(c.refused), slices.Clone(c.ends), slices.Clone(c.ingress)
	c.mu.Unlock()
	held, byLimit := int64(0), map[string]uint64{}
	for _, in := range ingresses {
		held += in.held()
		in.refused(func(limit string, n uint64) { byLimit[inList(labelLimit, limit)] += n })
	}
	if len(ingresses) > 0 {
		emit(ingressBytes, float64(held))
	}
	for limit, n := range byLimit {
		emit(ingressRefused, float64(n), limit)
	}
	counts := map[[2]string]uint64{}
	for _, read := range refused {
		read(func(method, reason string, n uint64) { counts[[2]string{method, inList(labelRefusal, reason)}] += n })
	}
	for of, n := range counts {
		emit(callersRefused, float64(n), of[0], of[1])
	}
	first := map[string]time.Time{}
	for _, read := range ends {
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
