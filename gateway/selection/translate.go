package selection

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

const (
	// defaultAlternates is Nova's max_attempts - 1.
	defaultAlternates = 2
)

// newSelection translates a request. An error of the request is InvalidRequest and names the fields.
func (svc *Service) newSelection(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*selection, error) {
	s := &selection{
		svc: svc, callerInput: callerInput{req: req, dryRun: req.GetDryRun(), ttl: claims.DefaultTTL, began: time.Now()}, cells: make([]cellState, len(svc.Cells.All)), endedClaims: map[string]bool{},
	}
	var err error
	if s.instances, err = instanceIDs(req.GetInstanceUuids()); err != nil {
		return nil, err
	}
	s.places = make([]*place, len(s.instances))
	if err := s.translate(ctx); err != nil {
		return nil, err
	}
	if s.fingerprint, err = fingerprintOf(req); err != nil {
		return nil, err
	}
	if req.GetReturnAlternates() {
		s.alternates = defaultAlternates
		if req.GetMaxAlternates() > 0 {
			s.alternates = int(req.GetMaxAlternates())
		}
	}
	if req.GetClaimTtl() != nil {
		s.ttl = req.GetClaimTtl().AsDuration()
	}
	s.seed = rand.Uint64()
	if id := req.GetRequestId(); id != "" {
		h := fnv.New64a()
		h.Write([]byte(id))
		s.seed = h.Sum64()
	}
	return s, nil
}

// form gives the field that has the request's needs: request_spec or nova_request_spec.
func (s *selection) form() string {
	if s.req.GetNovaRequestSpec() != nil {
		return "nova_request_spec"
	}
	return "request_spec"
}

// instanceIDs parses the instances' uuids, in any spelling; duplicates are an error.
func instanceIDs(texts []string) ([]schedule.ID, error) {
	ids := make([]schedule.ID, len(texts))
	seen := make(map[schedule.ID]int, len(texts))
	var bad []fault.Field
	for i, text := range texts {
		path := fmt.Sprintf("instance_uuids[%d]", i)
		id, err := schedule.ParseID(text)
		if err != nil {
			bad = append(bad, fault.Field{Path: path, Problem: err.Error()})
			continue
		}
		if first, ok := seen[id]; ok {
			bad = append(bad, fault.Field{Path: path, Problem: fmt.Sprintf("is the same instance as instance_uuids[%d]", first)})
			continue
		}
		seen[id], ids[i] = i, id
	}
	return ids, fault.InvalidFields(bad)
}

// translate makes the schedule.Request from the typed form or from Nova's object.
func (s *selection) translate(ctx context.Context) error {
	var request schedule.Request
	rebuild := false
	path := "request_spec"
	if form := s.req.GetNovaRequestSpec(); form != nil {
		path = "nova_request_spec"
		primitive := form.AsMap()
		options, err := s.svc.withSegments(ctx, primitive)
		if err != nil {
			return err
		}
		t, err := options.FromPrimitive(primitive)
		if err != nil {
			return err
		}
		// Nova ignores num_instances when it is given uuids, and keeps the
		// batch's number in the spec of each of its instances; only two
		// different batches contradict each other.
		if n := len(s.instances); t.NumInstances > 1 && n > 1 && n != t.NumInstances {
			return fault.Invalid(path+".num_instances", "is %d, but instance_uuids has %d", t.NumInstances, n)
		}
		request, s.project, s.user, s.ignored, rebuild = t.Request, t.ProjectID, t.UserID, t.Ignored, t.Rebuild
	} else {
		spec := s.req.GetRequestSpec()
		form := SpecOf(spec)
		rebuild = form.Rebuild()
		r, ignored, err := s.svc.Rules.Translation.Compile(form)
		if err != nil {
			return err
		}
		request, s.project, s.user, s.ignored = r, spec.GetProjectId(), spec.GetUserId(), ignored
	}
	if err := s.setOperation(rebuild); err != nil {
		return err
	}
	if err := s.svc.resolveTenant(&request); err != nil {
		return err
	}
	if err := s.setExpressions(&request, path); err != nil {
		return err
	}
	s.request, s.originalRequest = &request, &request
	strategy, err := strategyOf(&request, s.req.GetRequestSpec().GetStrategy(), path)
	if err != nil {
		return err
	}
	s.rules = s.weighsBy(s.svc.Rules.For(strategy))
	s.ignored = append(s.ignored, nova.Unread(s.request, withRequestFilters(s.request, s.rules), path)...)
	if err := s.checkStorable(); err != nil {
		return err
	}
	return s.svc.resolveDestination(s.request, path)
}

// withSegments gives the options to translate a request with, including the aggregates of its
// networks' segments.
func (svc *Service) withSegments(ctx context.Context, primitive map[string]any) (*nova.Options, error) {
	options := svc.Rules.Translation
	if !options.RoutedNetworks || svc.Segments == nil {
		return options, nil
	}
	with := *options
	with.Segments = [][]string{}
	networks := nova.RequestedNetworks(primitive)
	if len(networks) == 0 {
		return &with, nil
	}
	sets, err := svc.Segments(ctx, networks)
	with.Segments = append(with.Segments, sets...)
	return &with, err
}

// resolveDestination turns the destination's cell, given by name or uuid, into
// its uuid.
func (svc *Service) resolveDestination(r *schedule.Request, path string) error {
	if r.Destination == nil || r.Destination.Cell == "" {
		return nil
	}
	c := svc.Cells.Named(r.Destination.Cell)
	if c == nil {
		return fault.Invalid(path+".requested_destination.cell", "%s", svc.Cells.NoCell(r.Destination.Cell))
	}
	if r.Destination.Cell = c.UUID(); r.Destination.Cell == "" {
		return fault.New(fault.CellUnavailable, "cell %s has not answered yet, so its uuid is not known", c.Name()).With("cells", c.Name())
	}
	return nil
}

// SpecOf converts the typed form to the translator's. The destination's cell stays as the
// caller named it.
func SpecOf(r *cellgatev1.RequestSpec) nova.Spec {
	f := r.GetFlavor()
	s := nova.Spec{
		Path: "request_spec",
		Flavor: nova.Flavor{
			Name: f.GetName(), VCPUs: int64(f.GetVcpus()), MemoryMB: int64(f.GetMemoryMb()), RootGB: int64(f.GetRootGb()),
			EphemeralGB: int64(f.GetEphemeralGb()), SwapMB: int64(f.GetSwapMb()), ExtraSpecs: f.GetExtraSpecs(),
		},
		ImageProperties:     r.GetImage().GetProperties(),
		ImageID:             r.GetImage().GetId(),
		DiskFormat:          r.GetImage().GetDiskFormat(),
		HasImage:            r.GetImage() != nil,
		ProjectID:           r.GetProjectId(),
		RequiredTraits:      r.GetRequiredTraits(),
		ForbiddenTraits:     r.GetForbiddenTraits(),
		ForbiddenAggregates: r.GetForbiddenAggregates(),
		AvailabilityZone:    r.GetAvailabilityZone(),
		IgnoreHosts:         r.GetIgnoreHosts(),
		ForceHosts:          r.GetForceHosts(),
		ForceNodes:          r.GetForceNodes(),
		BootFromVolume:      r.GetIsBfv(),
	}
	for _, set := range r.GetAnyTraits() {
		s.AnyTraits = append(s.AnyTraits, set.GetTraits())
	}
	for _, set := range r.GetMemberOf() {
		s.MemberOf = append(s.MemberOf, set.GetAggregates())
	}
	if len(r.GetResources()) > 0 {
		s.Resources = map[string]int64{}
		for class, n := range r.GetResources() {
			s.Resources[class] = int64(n)
		}
	}
	if len(r.GetSchedulerHints()) > 0 {
		s.Hints = map[string][]string{}
		for name, values := range r.GetSchedulerHints() {
			s.Hints[name] = values.GetValues()
		}
	}
	if d := r.GetRequestedDestination(); d != nil {
		s.Destination = &schedule.Destination{
			Host: d.GetHost(), Node: d.GetNode(), Cell: d.GetCell(), AllowCrossCellMove: d.GetAllowCrossCellMove(),
		}
	}
	if g := r.GetInstanceGroup(); g != nil {
		s.Group = &nova.Group{
			UUID: g.GetUuid(), Policy: g.GetPolicy(), MaxPerHost: int64(g.GetMaxServerPerHost()),
			Members: g.GetMembers(), Hosts: g.GetHosts(),
		}
	}
	return s
}

// strategyOf gives the strategy of a request, from the typed form or from a hint of either
// form; path is the form's. It removes the hint from the request.
func strategyOf(r *schedule.Request, named, path string) (string, error) {
	if r.Nova == nil {
		return named, nil
	}
	at := slices.IndexFunc(r.Nova.Hints, func(h schedule.Hint) bool { return h.Name == nova.StrategyHint })
	if at < 0 {
		return named, nil
	}
	hinted := r.Nova.Hints[at].Values
	r.Nova.Hints = slices.Delete(r.Nova.Hints, at, at+1)
	hint := path + `.scheduler_hints["` + nova.StrategyHint + `"]`
	if len(hinted) != 1 {
		return "", fault.Invalid(hint, "must be one strategy, is %d", len(hinted))
	}
	if _, ok := schedule.Strategy(hinted[0]); !ok {
		return "", fault.Invalid(hint, "must be one of %s, not %.40q", strings.Join(schedule.Strategies(), ", "), hinted[0])
	}
	if named != "" && named != hinted[0] {
		return "", fault.Invalid(hint, "is another strategy than %s.strategy", path)
	}
	return hinted[0], nil
}
