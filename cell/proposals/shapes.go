package proposals

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/expression"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const (
	// maxShapes is how many shapes one generation keeps; two generations are kept.
	maxShapes = 1024
	// maxShapeBytes is the largest placement that is kept: placements with long lists of hosts or
	// members do not recur.
	maxShapeBytes = 16 << 10
)

// Shape is a parsed and checked placement. Its request and rules are immutable.
type Shape struct {
	request *schedule.Request
	rules   *schedule.Rules
	memory  memory
}

// Shapes caches the parsed placements seen last, by their bytes: the rounds of a request carry the same
// placement, and so do requests for one flavor. A shape is dropped if it is not asked for while
// maxShapes others are. Safe for concurrent use.
type Shapes struct {
	mu         sync.Mutex
	young, old map[string]*Shape
	memories   memories
	// expressions caches the expressions of placements: every shape carries those of the rules.
	expressions expression.Cache
}

func NewShapes() *Shapes {
	return &Shapes{young: map[string]*Shape{}, memories: memories{most: maxMemory}}
}

// read returns the shape of a serialized placement. It records problems in r; a shape with problems is
// not kept.
func (s *Shapes) read(r *wire.Fields, placement []byte) *Shape {
	if found := s.find(placement); found != nil {
		return found
	}
	p := &cellv1.Placement{}
	if err := proto.Unmarshal(placement, p); err != nil {
		r.Problem("placement", "is not a serialized Placement")
		return &Shape{request: &schedule.Request{}, rules: &schedule.Rules{}}
	}
	r.Expressions = &s.expressions
	made := &Shape{request: r.Request(p), rules: r.Rules(p.GetRules())}
	if r.Ok() && len(placement) <= maxShapeBytes {
		s.keep(string(placement), made)
	}
	return made
}

// Read returns the request and the rules of a serialized placement. Both are immutable.
func (s *Shapes) Read(placement []byte) (*schedule.Request, *schedule.Rules, error) {
	var r wire.Fields
	asked := s.read(&r, placement)
	return asked.request, asked.rules, r.Err()
}

func (s *Shapes) find(placement []byte) *Shape {
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

func (s *Shapes) keep(placement string, made *Shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(placement, made)
}

// put adds a shape. The caller holds mu.
func (s *Shapes) put(placement string, made *Shape) {
	if len(s.young) >= maxShapes {
		s.old, s.young = s.young, make(map[string]*Shape, maxShapes)
	}
	s.young[placement] = made
}

// QueryOf parses a query, its shape, and its consumers as canonical uuids. It leaves to the table what
// the table checks itself: the names of filters and weighers.
func (s *Shapes) QueryOf(in *cellv1.Query) (*schedule.Query, *Shape, []string, error) {
	var r wire.Fields
	if len(in.GetPlacement()) == 0 {
		r.Problem("placement", "must be set")
	}
	asked := s.read(&r, in.GetPlacement())
	q := r.Query(in, asked.request, asked.rules)
	consumers := make([]string, len(in.GetConsumerUuids()))
	for i, text := range in.GetConsumerUuids() {
		consumers[i] = r.UUID(wire.ItemPath("consumer_uuids", i, ""), text)
	}
	if err := r.Err(); err != nil {
		return nil, nil, nil, err
	}
	return q, asked, consumers, nil
}
