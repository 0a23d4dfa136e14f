package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/rest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// selectFlags has the flags that make a request.
type selectFlags struct {
	file string

	instances []string
	count     int
	requestID string
	operation *string
	alternate int32
	ttl       time.Duration
	dryRun    bool

	flavor                      cellgatev1.Flavor
	resources                   map[string]int
	traits, forbidden           []string
	aggregates, notAggregates   []string
	zone, project, user         string
	ignore, force, forceNodes   []string
	cell, host, group, policy   string
	extraSpecs, imageProperties map[string]string
	strategy                    string
	hints                       []string
	filterBy, weighBy           string
	multiplier                  float64
	hasMultiplier               func() bool
}

// operations are the values of --operation.
var operations = []string{"build", "move", "evacuate", "unshelve", "live_migrate", "rebuild"}

func (s *selectFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "read the request from this JSON file; - for the standard input")
	f.StringSliceVar(&s.instances, "instance", nil, "instance, by uuid; again for each (default: new ones)")
	f.IntVar(&s.count, "count", 1, "instances, when none is named")
	s.operation = choiceFlag(cmd, "operation", "build", operations, "build, move, evacuate, unshelve, live_migrate or rebuild; all but build need --instance, and all but unshelve just one")
	f.Int32Var(&s.flavor.Vcpus, "vcpus", 1, "VCPU of an instance")
	f.Int32Var(&s.flavor.MemoryMb, "memory-mb", 2048, "memory of an instance, in MiB")
	f.Int32Var(&s.flavor.RootGb, "disk-gb", 20, "disk of an instance, in GiB")
	f.StringToIntVar(&s.resources, "resource", nil, "another resource: CLASS=AMOUNT")
	f.StringSliceVar(&s.traits, "trait", nil, "a trait the host must have")
	f.StringSliceVar(&s.forbidden, "forbid-trait", nil, "a trait the host must not have")
	f.StringSliceVar(&s.aggregates, "aggregate", nil, "the host must be in one of these aggregates, by name or uuid")
	f.StringSliceVar(&s.notAggregates, "forbid-aggregate", nil, "the host must be in none of these aggregates, by name or uuid")
	f.StringVar(&s.zone, "zone", "", "availability zone")
	f.StringVar(&s.cell, "cell", "", "place in this cell only, by name or uuid")
	f.StringVar(&s.host, "host", "", "place on this service host only; filters still run")
	f.StringSliceVar(&s.ignore, "ignore-host", nil, "a service host to leave out")
	f.StringSliceVar(&s.force, "force-host", nil, "only these service hosts, whatever the filters say")
	f.StringSliceVar(&s.forceNodes, "force-node", nil, "only these hypervisor nodes, whatever the filters say")
	f.StringVar(&s.group, "group", "", "server group, by uuid")
	f.StringVar(&s.policy, "policy", "", "the group's policy: affinity, anti-affinity, soft-affinity, soft-anti-affinity")
	f.StringToStringVar(&s.extraSpecs, "extra-spec", nil, "an extra spec of the flavor: KEY=VALUE")
	f.StringToStringVar(&s.imageProperties, "image-property", nil, "a property of the image: KEY=VALUE")
	f.StringArrayVar(&s.hints, "hint", nil, "a scheduler hint: NAME=VALUE; again for each value")
	f.StringVar(&s.filterBy, "filter-expression", "", "a CEL expression that must be true of the host, as host.free.VCPU > 8 (docs/explanation/facts.md)")
	f.StringVar(&s.weighBy, "weigh-expression", "", "a CEL expression that gives each host a raw weight")
	f.Float64Var(&s.multiplier, "weigh-multiplier", 1, "how much --weigh-expression counts; below 0 the least is the best")
	f.StringVar(&s.strategy, "strategy", "", "nova, spread, balanced or pack; empty for the gateway's weighers")
	f.StringVar(&s.project, "project", "", "project id")
	f.StringVar(&s.user, "user", "", "user id")
	f.StringVar(&s.requestID, "request-id", "", "idempotency key: the same one and the same request give the same answer")
	f.Int32Var(&s.alternate, "alternates", 0, "alternates an instance (0 for none)")
	f.DurationVar(&s.ttl, "ttl", 0, "lease of the claims (0 for the gateway's default)")
	f.VisitAll(func(f *pflag.Flag) {
		if f.Name != "file" {
			cmd.MarkFlagsMutuallyExclusive("file", f.Name)
		}
	})
	f.BoolVar(&s.dryRun, "dry-run", false, "choose, claim nothing")
	cmd.MarkFlagsMutuallyExclusive("instance", "count")
	cmd.MarkFlagsRequiredTogether("group", "policy")
	s.hasMultiplier = func() bool { return f.Changed("weigh-multiplier") }
}

// request builds the request. It reads stdin for -f -.
func (s *selectFlags) request(stdin io.Reader) (*cellgatev1.SelectDestinationsRequest, error) {
	if s.file != "" {
		req := &cellgatev1.SelectDestinationsRequest{}
		err := readRequest(s.file, stdin, req)
		req.DryRun = req.GetDryRun() || s.dryRun
		return req, err
	}
	operation := cellgatev1.Operation(cellgatev1.Operation_value[enumName(*s.operation)])
	if operation != cellgatev1.Operation_BUILD && len(s.instances) == 0 {
		return nil, fmt.Errorf("--operation %s: is of an instance that exists: name it with --instance", *s.operation)
	}
	req := &cellgatev1.SelectDestinationsRequest{
		Operation:        operation,
		RequestId:        s.requestID,
		InstanceUuids:    s.instances,
		ReturnAlternates: s.alternate > 0,
		MaxAlternates:    s.alternate,
		DryRun:           s.dryRun,
	}
	if len(s.instances) == 0 {
		if s.count < 1 {
			return nil, fmt.Errorf("--count: %d is below 1", s.count)
		}
		for range s.count {
			req.InstanceUuids = append(req.InstanceUuids, uuid.NewString())
		}
	}
	if s.ttl != 0 {
		req.ClaimTtl = durationpb.New(s.ttl)
	}
	spec := &cellgatev1.RequestSpec{
		Flavor: &s.flavor, RequiredTraits: s.traits, ForbiddenTraits: s.forbidden, ForbiddenAggregates: s.notAggregates,
		AvailabilityZone: s.zone, ProjectId: s.project, UserId: s.user,
		IgnoreHosts: s.ignore, ForceHosts: s.force, ForceNodes: s.forceNodes, Strategy: s.strategy,
		FilterExpression: s.filterBy, WeighExpression: s.weighBy,
	}
	if s.hasMultiplier() {
		spec.WeighMultiplier = &s.multiplier
	}
	for _, hint := range s.hints {
		name, value, ok := strings.Cut(hint, "=")
		if !ok {
			return nil, fmt.Errorf("--hint: %q is not NAME=VALUE", hint)
		}
		if spec.SchedulerHints == nil {
			spec.SchedulerHints = map[string]*cellgatev1.StringList{}
		}
		if spec.SchedulerHints[name] == nil {
			spec.SchedulerHints[name] = &cellgatev1.StringList{}
		}
		spec.SchedulerHints[name].Values = append(spec.SchedulerHints[name].Values, value)
	}
	s.flavor.ExtraSpecs = s.extraSpecs
	if len(s.imageProperties) > 0 {
		spec.Image = &cellgatev1.Image{Properties: s.imageProperties}
	}
	for _, class := range slices.Sorted(maps.Keys(s.resources)) {
		n := s.resources[class]
		if int(int32(n)) != n {
			return nil, fmt.Errorf("--resource: %s=%d is too much", class, n)
		}
		if spec.Resources == nil {
			spec.Resources = map[string]int32{}
		}
		spec.Resources[class] = int32(n)
	}
	if len(s.aggregates) > 0 {
		spec.MemberOf = []*cellgatev1.AggregateSet{{Aggregates: s.aggregates}}
	}
	if s.cell != "" || s.host != "" {
		spec.RequestedDestination = &cellgatev1.Destination{Cell: s.cell, Host: s.host}
	}
	if s.group != "" {
		spec.InstanceGroup = &cellgatev1.InstanceGroup{Uuid: s.group, Policy: s.policy}
	}
	req.Spec = &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: spec}
	return req, nil
}

// readRequest reads a request of the REST API from a file, or from standard input for "-".
func readRequest(file string, stdin io.Reader, req proto.Message) error {
	text, err := readInput(file, stdin)
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	if err := rest.ReadJSON(text, req); err != nil {
		if file == "-" {
			file = "standard input"
		}
		return fmt.Errorf("%s: %s", file, wording(err))
	}
	return nil
}
