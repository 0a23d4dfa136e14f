package cell

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const (
	// maxShapes is how many shapes a generation keeps; two are kept.
	maxShapes = 1024
	// maxShapeBytes is the largest placement that is kept: those with long lists of
	// hosts or members do not come again.
	maxShapeBytes = 16 << 10
)

// shape is what a placement says, read and checked: request and rules are never
// changed.
type shape struct {
	request *schedule.Request
	rules   *schedule.Rules
	memory  memory
}

// shapes keeps what was made of the placements seen last, by their bytes: the
// rounds of a request carry the same ones, and so do requests for one flavor. The
// shapes not asked for while maxShapes others came are forgotten. Safe for
// concurrent use.
type shapes struct {
	mu         sync.Mutex
	young, old map[string]*shape
	memories   memories
}

func newShapes() *shapes {
	return &shapes{young: map[string]*shape{}, memories: memories{most: maxMemory}}
}

// read gives the shape of a serialized placement. What is wrong with it is noted
// in r, and a shape with problems is not kept.
func (s *shapes) read(r *reader, placement []byte) *shape {
	if found := s.find(placement); found != nil {
		return found
	}
	p := &cellv1.Placement{}
	if err := proto.Unmarshal(placement, p); err != nil {
		r.problem("placement", "is not a serialized Placement")
		return &shape{request: &schedule.Request{}, rules: &schedule.Rules{}}
	}
	before := len(r.bad)
	made := &shape{request: r.request(p), rules: r.rules(p.GetRules())}
	if len(r.bad) == before && len(placement) <= maxShapeBytes {
		s.keep(string(placement), made)
	}
	return made
}

func (s *shapes) find(placement []byte) *shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.young[string(placement)]; found != nil {
		return found
	}
	found := s.old[string(placement)]
	if found != nil {
		s.put(string(placement), found)
	}
	return found
}

func (s *shapes) keep(placement string, made *shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(placement, made)
}

// put needs mu.
func (s *shapes) put(placement string, made *shape) {
	if len(s.young) >= maxShapes {
		s.old, s.young = s.young, make(map[string]*shape, maxShapes)
	}
	s.young[placement] = made
}

// queryOf reads a query, its shape, and the consumers it asks about as canonical
// text. What the table checks itself (names of filters and weighers) is left to it.
func (s *shapes) queryOf(in *cellv1.Query) (*schedule.Query, *shape, []string, error) {
	var r reader
	q := &schedule.Query{Seed: in.GetSeed(), Limit: int(in.GetLimit())}
	if q.Limit < 1 {
		r.problem("limit", "must be at least 1")
	}
	if len(in.GetPlacement()) == 0 {
		r.problem("placement", "must be set")
	}
	asked := s.read(&r, in.GetPlacement())
	q.Request, q.Rules = asked.request, asked.rules
	q.Known = r.known(in.GetKnown())
	for i, t := range in.GetTakes() {
		q.Takes = append(q.Takes, schedule.Take{
			Host:     r.id(itemPath("takes", i, ".host_uuid"), t.GetHostUuid()),
			Instance: r.id(itemPath("takes", i, ".instance_uuid"), t.GetInstanceUuid()),
		})
	}
	consumers := make([]string, len(in.GetConsumerUuids()))
	for i, text := range in.GetConsumerUuids() {
		consumers[i] = r.uuid(itemPath("consumer_uuids", i, ""), text)
	}
	if err := fault.InvalidFields(r.bad); err != nil {
		return nil, nil, nil, err
	}
	return q, asked, consumers, nil
}
