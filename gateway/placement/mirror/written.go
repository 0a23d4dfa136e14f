package mirror

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"cellgate/gateway/placement"
)

// kind is the kind of an object that a mirror copies.
type kind string

const (
	providerThing kind = "provider"
	consumerThing kind = "consumer"
	namesThing    kind = "names"
)

// thing is the object of one copy.
type thing struct {
	kind  kind
	id    string
	names placement.NameKind
	// cell is the cell of a new root.
	cell string
}

// writtenBy gives the objects that a request wrote: by its path, by the body of a request that writes several, and by
// the Location of a created one.
func writtenBy(method, requestPath string, body []byte, location, cell string) (out []thing) {
	parts := strings.Split(strings.Trim(requestPath, "/"), "/")
	provider := func(id string) { out = append(out, thing{kind: providerThing, id: canonical(id), cell: cell}) }
	consumers := func(of map[string]json.RawMessage) {
		for id := range of {
			out = append(out, thing{kind: consumerThing, id: canonical(id)})
		}
	}
	switch {
	case parts[0] == "resource_providers" && len(parts) == 1 && method == http.MethodPost:
		if location != "" {
			provider(path.Base(location))
			break
		}
		var made struct{ UUID string }
		if json.Unmarshal(body, &made) == nil && made.UUID != "" {
			provider(made.UUID)
		}
	case parts[0] == "resource_providers" && len(parts) > 1:
		provider(parts[1])
	case parts[0] == "allocations" && len(parts) == 2:
		consumers(map[string]json.RawMessage{parts[1]: nil})
	case parts[0] == "allocations":
		var several map[string]json.RawMessage
		if json.Unmarshal(body, &several) == nil {
			consumers(several)
		}
	case parts[0] == "reshaper":
		var reshape struct {
			Inventories map[string]json.RawMessage `json:"inventories"`
			Allocations map[string]json.RawMessage `json:"allocations"`
		}
		if json.Unmarshal(body, &reshape) == nil {
			for id := range reshape.Inventories {
				provider(id)
			}
			consumers(reshape.Allocations)
		}
	case parts[0] == "traits":
		out = append(out, thing{kind: namesThing, names: placement.TraitName})
	case parts[0] == "resource_classes":
		out = append(out, thing{kind: namesThing, names: placement.ClassName})
	}
	return out
}

// canonical gives a uuid in the form that Placement stores.
func canonical(id string) string {
	if uuid, ok := placement.CanonicalUUID(id); ok {
		return uuid
	}
	return id
}

// ignoreAgents drops the refusal of an object that an agent reports; the reports of passes count these.
func ignoreAgents(err error) error {
	if placement.ReasonOf(err) == placement.AgentTree {
		return nil
	}
	return err
}

// queue has the objects to copy, each once. An object that is written again during its copy is copied again.
type queue struct {
	most int
	// more signals that an object was added, overflow that one was left out.
	more, overflow chan struct{}

	mu      sync.Mutex
	waiting []thing
	// state has each object that waits or is copied; again: it was written since its copy began.
	state map[thing]*queued
}

type queued struct {
	copying, again bool
	// failed is why the last copy failed.
	failed string
}

func newQueue(most int) *queue {
	return &queue{most: most, more: make(chan struct{}, 1), overflow: make(chan struct{}, 1), state: map[thing]*queued{}}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is already pending
	}
}

func (q *queue) add(t thing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.state[t]; s != nil {
		s.again = s.again || s.copying
		return
	}
	if len(q.state) >= q.most {
		wake(q.overflow)
		return
	}
	q.state[t] = &queued{}
	q.waiting = append(q.waiting, t)
	wake(q.more)
}

// next waits for an object; false once ctx has ended and none waits.
func (q *queue) next(ctx context.Context) (thing, bool) {
	for {
		q.mu.Lock()
		if len(q.waiting) > 0 {
			t := q.waiting[0]
			q.waiting = slices.Delete(q.waiting, 0, 1)
			q.state[t].copying = true
			if len(q.waiting) > 0 {
				wake(q.more) // for another worker
			}
			q.mu.Unlock()
			return t, true
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return thing{}, false
		case <-q.more:
		}
	}
}

// done ends a copy. A failed copy is repeated after retry. An object that was written meanwhile is copied again at
// once. isNew reports that the copy failed, for another reason than the copy before.
func (q *queue) done(t thing, err error, retry time.Duration) (isNew bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.state[t]
	switch {
	case err != nil:
		isNew = s.failed != err.Error()
		*s = queued{failed: err.Error()}
		time.AfterFunc(retry, func() { q.enqueue(t) })
	case s.again:
		*s = queued{}
		q.waiting = append(q.waiting, t)
		wake(q.more)
	default:
		delete(q.state, t)
	}
	return isNew
}

func (q *queue) enqueue(t thing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, t)
	wake(q.more)
}

// pending gives the number of objects that wait, are copied, or wait for a retry.
func (q *queue) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.state)
}
