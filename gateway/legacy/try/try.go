package try

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/gateway/legacy/novadb"
	"cellgate/gateway/placement/mirror"
	"cellgate/gateway/rules"
	"cellgate/gateway/selection"
	"cellgate/schedule"
	"cellgate/schedule/nova"
	"cellgate/schedule/placement"
)

// Config configures a trial.
type Config struct {
	// Database has the cell's database, and the API database; without that, neither requests nor flavors are read.
	Database novadb.Config
	// Placement, with a URL, is Placement's database. Inventories, traits and usages are then its own, not those of
	// compute_nodes. PlacementAPI, if set, is used instead.
	Placement    novadb.Database
	PlacementAPI *mirror.Client
	// Rules are the rules of placement; they have at least their defaults.
	Rules *rules.Rules
	// Requests is how many of the newest request specs are placed again.
	Requests int
}

// Report is what cellgate try found.
type Report struct {
	// At is the time for which services count as up or down: the server's, or, if no service has a
	// recent heartbeat, as in a dump, the time of the newest heartbeat.
	At        time.Time     `json:"at"`
	Took      time.Duration `json:"took_ns"`
	Hosts     int           `json:"hosts"`
	Available int           `json:"available"`
	Disabled  int           `json:"disabled"`
	Down      int           `json:"down"`
	// Silent is why At is not the present time; empty if a service has a recent heartbeat.
	Silent string `json:"silent,omitempty"`
	// Instances are on those hosts. NotCounted are on other hosts; Uncounted has the first of these, up to
	// Config.Database.MaxLeftOut.
	Instances  int              `json:"instances"`
	NotCounted int              `json:"not_counted"`
	Uncounted  []Uncounted      `json:"uncounted"`
	Classes    []Class          `json:"classes"`
	LeftOut    []novadb.LeftOut `json:"left_out"`
	// Unprovided are the names of hosts without a provider in Placement; these hosts are left out.
	Unprovided []string `json:"unprovided"`
	// Sharing are Placement's sharing providers. No host has what they share.
	Sharing []SharingProvider `json:"sharing"`
	// Unread are tables that the user may not read, or that the database lacks: their content is missing.
	Unread  []Unread `json:"unread"`
	Flavors []Flavor `json:"flavors"`
	Replays []Replay `json:"replays"`
	// Skipped counts request specs of instances that are on none of the hosts: gone, or in another cell.
	Skipped int     `json:"skipped"`
	Summary Summary `json:"summary"`
}

// Summary counts the replays.
type Summary struct {
	// Placed found a host. Of those, Nova's host has the best weight for Best, and is the first for SameHost. Refused
	// found no host, and Unread could not be translated.
	Placed   int `json:"placed"`
	Best     int `json:"best"`
	SameHost int `json:"same_host"`
	Refused  int `json:"refused"`
	Unread   int `json:"unread"`
	// Median is the median time of the placed ones.
	Median time.Duration `json:"median_ns"`
}

// Uncounted is an instance on a host that is left out.
type Uncounted struct {
	UUID string `json:"uuid"`
	Host string `json:"host"`
	Node string `json:"node"`
}

// SharingProvider is a provider that shares its classes with the hosts of its aggregates.
type SharingProvider struct {
	UUID    string   `json:"uuid"`
	Classes []string `json:"classes"`
}

// Unread is a table that was not read.
type Unread struct {
	Table string `json:"table"`
	// Grant is the statement that lets the user read it; empty if the database lacks the table.
	Grant string `json:"grant"`
}

// Class is a resource class over all hosts.
type Class struct {
	Name     string `json:"name"`
	Used     int64  `json:"used"`
	Capacity int64  `json:"capacity"`
}

// Flavor is one of Nova's flavors, with how many instances of it still fit, placed one after the other by the filters
// and the flavor's extra specs.
type Flavor struct {
	Name       string            `json:"name"`
	VCPUs      int64             `json:"vcpus"`
	MemoryMB   int64             `json:"memory_mb"`
	DiskGB     int64             `json:"disk_gb"`
	ExtraSpecs map[string]string `json:"extra_specs,omitempty"`
	Fits       int               `json:"fits"`
	// Problem is why none fits, or why that is not known.
	Problem string `json:"problem"`
	// Refusal is why none fits, as a cellgate.v1.NoValidHost.
	Refusal json.RawMessage `json:"refusal,omitempty"`
}

// Replay is a request spec that was placed again, on the present hosts without its instance.
type Replay struct {
	Instance string `json:"instance"`
	// Nova is the instance's host, Chosen the host that cellgate ranks first; empty for none. Rank is the rank of
	// Nova's host in cellgate's order, from 1, and 0 if a filter rejects it. Hosts of equal weight, among which Nova
	// picks at random, have the rank of the first of them.
	Nova   string `json:"nova"`
	Chosen string `json:"chosen"`
	Rank   int    `json:"rank"`
	// Rejected is the filter that rejects Nova's host by itself; empty where none does.
	Rejected string        `json:"rejected,omitempty"`
	Passed   int           `json:"passed"`
	Took     time.Duration `json:"took_ns"`
	// Problem is why nothing was chosen.
	Problem string `json:"problem"`
	// Refusal is why no host passes, as a cellgate.v1.NoValidHost; unset where the spec could not be translated.
	Refusal json.RawMessage `json:"refusal,omitempty"`
}

// DatabaseError is the error of one of the databases.
type DatabaseError struct {
	// Database is cell, api or placement.
	Database string
	Err      error
}

func (e *DatabaseError) Error() string { return "the " + e.Database + " database: " + e.Err.Error() }
func (e *DatabaseError) Unwrap() error { return e.Err }

// failed makes a DatabaseError; nil for nil.
func failed(database string, err error) error {
	if err == nil {
		return nil
	}
	return &DatabaseError{database, err}
}

// Run reads the databases and makes the trial.
func Run(ctx context.Context, c Config) (*Report, error) {
	began := time.Now()
	reader, err := novadb.Open(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }() // it was read
	x, err := reader.Load(ctx)
	if err != nil {
		return nil, err
	}
	var api apiRows
	if c.Database.API.URL != "" {
		if api, err = readAPI(ctx, c.Database.API, c.Requests); err != nil {
			return nil, failed("api", err)
		}
	}
	var placement *placementRows
	switch {
	case c.PlacementAPI != nil:
		placement, err = askPlacement(ctx, c.PlacementAPI, api.specs)
	case c.Placement.URL != "":
		placement, err = readPlacement(ctx, c.Placement, api.specs)
	}
	if err != nil {
		return nil, failed("placement", err)
	}
	down := cmp.Or(c.Database.ServiceDownTime, time.Minute)
	r := &Report{At: x.At, Silent: x.WhySilent(down), LeftOut: x.LeftOut, Unread: api.unread}
	if asOf := x.Heartbeat; r.Silent != "" && !asOf.IsZero() {
		r.At = asOf
		upAt(x, asOf, down)
	}
	if placement != nil {
		r.Sharing = placement.sharing()
	}
	edit := schedule.NewTable().Edit()
	byName := map[string]*novadb.Host{}
	for i := range x.Hosts {
		h := &x.Hosts[i]
		h.Resources = resources(h)
		if placement != nil && !placement.provide(&h.Host) {
			r.Unprovided = append(r.Unprovided, h.ServiceHost)
			continue
		}
		r.Hosts++
		edit.PutHost(h.Host)
		byName[h.ServiceHost+"\x00"+h.NodeName] = h
		r.count(&h.Host)
	}
	instances := map[string]novadb.Instance{}
	for p, err := range reader.Instances(ctx, novadb.InstancePoint{}) {
		if err != nil {
			return nil, err
		}
		for _, i := range p.Instances {
			h := byName[i.Host+"\x00"+i.Node]
			if i.Deleted || i.Host == "" {
				continue // deleted, or on no host
			}
			if h == nil {
				if r.NotCounted++; r.NotCounted <= c.Database.MaxLeftOut {
					r.Uncounted = append(r.Uncounted, Uncounted{UUID: i.UUID, Host: i.Host, Node: i.Node})
				}
				continue
			}
			if r.Instances++; len(api.specs) > 0 {
				instances[i.UUID] = i
			}
			if id, err := schedule.ParseID(i.UUID); err == nil {
				edit.AddConsumer(h.UUID, schedule.Consumer{Instance: id})
			}
		}
	}
	table := edit.Table()
	for _, f := range api.flavors {
		r.Flavors = append(r.Flavors, c.fill(ctx, table, f))
	}
	for _, s := range api.specs {
		i, there := instances[s.instance]
		if !there {
			r.Skipped++
			continue
		}
		s.joinGroup(api.members, instances)
		r.Replays = append(r.Replays, c.replay(table, s, &i, byName[i.Host+"\x00"+i.Node], placement))
	}
	r.Summary = summarize(r.Replays)
	r.Took = time.Since(began)
	return r, nil
}

func summarize(replays []Replay) (s Summary) {
	var took []time.Duration
	for _, x := range replays {
		switch {
		case x.Refusal != nil:
			s.Refused++
		case x.Problem != "":
			s.Unread++
		default:
			took = append(took, x.Took)
			if x.Rank == 1 {
				s.Best++
			}
			if x.Chosen == x.Nova {
				s.SameHost++
			}
		}
	}
	if slices.Sort(took); len(took) > 0 {
		s.Placed, s.Median = len(took), took[len(took)/2]
	}
	return s
}

// upAt sets which hosts are down at a time.
func upAt(x *novadb.Snapshot, at time.Time, down time.Duration) {
	services := x.ServicesByID()
	for i := range x.Hosts {
		if s := services[x.Hosts[i].ServiceID]; s != nil {
			x.Hosts[i].Down = !s.Up(at, down)
		}
	}
}

// resources gives the resources of a row of compute_nodes, as an importer registers them; the used
// amounts are the row's own.
func resources(h *novadb.Host) (all []schedule.Resource) {
	v := &h.View
	disk := v.DiskUsedMB >> 10
	for _, r := range []struct {
		class       string
		total, used int64
		ratio       float64
	}{
		{"VCPU", v.VCPUsTotal, v.VCPUsUsed, v.CPURatio},
		{"MEMORY_MB", v.TotalRAMMB, v.TotalRAMMB - v.FreeRAMMB, v.RAMRatio},
		{"DISK_GB", v.TotalDiskGB, disk, v.DiskRatio},
	} {
		if r.total > 0 {
			all = append(all, schedule.Resource{Class: r.class, Capacity: capacity(r.total, 0, r.ratio), Used: r.used, MinUnit: 1, MaxUnit: r.total, StepSize: 1})
		}
	}
	return all
}

// capacity gives the capacity of an inventory. A ratio above 100,000 limits nothing, as in a cell.
func capacity(total, reserved int64, ratio float64) int64 {
	return placement.Capacity(total, reserved, min(ratio, 100_000))
}

// count adds a host to the fleet's numbers.
func (r *Report) count(h *schedule.Host) {
	switch {
	case h.Disabled:
		r.Disabled++
	case h.Down:
		r.Down++
	default:
		r.Available++
	}
	for _, res := range h.Resources {
		at := slices.IndexFunc(r.Classes, func(c Class) bool { return c.Name == res.Class })
		if at < 0 {
			at, r.Classes = len(r.Classes), append(r.Classes, Class{Name: res.Class})
		}
		r.Classes[at].Used += res.Used
		r.Classes[at].Capacity += res.Capacity
	}
}

// mostOfFlavor bounds the counted instances of a flavor.
const mostOfFlavor = 10_000_000

// fill counts how many instances of a flavor still fit on the table.
func (c *Config) fill(ctx context.Context, table *schedule.Table, f nova.Flavor) Flavor {
	out := Flavor{Name: f.Name, VCPUs: f.VCPUs, MemoryMB: f.MemoryMB, DiskGB: f.Resources(false)["DISK_GB"], ExtraSpecs: f.ExtraSpecs}
	request, _, err := c.Rules.Translation.Compile(nova.Spec{Flavor: f})
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	filled, err := table.Fill(&request, c.Rules.For(""), mostOfFlavor, ctx.Err)
	if filled != nil {
		out.Fits = filled.Instances
	}
	if err == nil && out.Fits == 0 {
		_, out.Problem, out.Refusal, err = c.propose(table, &request, 0)
	}
	if err != nil {
		out.Problem = err.Error()
	}
	return out
}

// nearMisses is how many near misses a refusal asks for.
const nearMisses = 5

// propose ranks all hosts of a table; the seed orders hosts of equal weight. If no host passes, it gives why, as text
// and as the refusal of a selection.
func (c *Config) propose(table *schedule.Table, request *schedule.Request, seed uint64) (p *schedule.Proposal, problem string, refusal json.RawMessage, err error) {
	q := &schedule.Query{Request: request, Rules: c.Rules.For(""), Seed: seed, Limit: max(table.Len(), 1)}
	if p, err = table.Propose(q); err != nil || len(p.Candidates) > 0 {
		return p, "", nil, err
	}
	q.NearMisses = nearMisses // only now, since near misses take longer than ranking
	if p, err = table.Propose(q); err != nil {
		return p, "", nil, err
	}
	typed, problem := selection.Refusal("this cell", p)
	if change := typed.GetSmallestChange(); change != "" {
		problem += "; it would fit if you " + change
	}
	if change := typed.GetSmallestOperatorChange(); change != "" {
		problem += "; operators: " + change
	}
	refusal, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(typed)
	return p, problem, refusal, err
}

// replay places a request spec on the table without its instance i, which is on host on.
func (c *Config) replay(table *schedule.Table, s requestSpec, i *novadb.Instance, on *novadb.Host, placement *placementRows) Replay {
	out := Replay{Instance: s.instance, Nova: on.ServiceHost}
	if out.Problem = s.problem; s.problem != "" {
		return out
	}
	t, err := c.Rules.Translation.FromPrimitive(s.primitive)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	edit := table.Edit()
	host := without(on.Host, i)
	if placement != nil {
		host.Resources, host.Children = placement.without(&on.Host, s.instance)
	}
	edit.PutHost(host)
	if id, err := schedule.ParseID(i.UUID); err == nil {
		edit.RemoveConsumer(id)
	}
	began := time.Now()
	p, problem, refusal, err := c.propose(edit.Table(), &t.Request, uint64(i.ID))
	out.Took, out.Problem, out.Refusal = time.Since(began), problem, refusal
	switch {
	case err != nil:
		out.Problem = err.Error()
		return out
	case refusal != nil:
		return out
	}
	out.Chosen, out.Passed = p.Candidates[0].ServiceHost, p.Passed
	if at := slices.IndexFunc(p.Candidates, func(x schedule.Candidate) bool { return x.Host == on.UUID }); at >= 0 {
		out.Rank = 1 + slices.IndexFunc(p.Candidates, func(x schedule.Candidate) bool { return x.Weight == p.Candidates[at].Weight })
	} else if out.Rejected, err = c.rejectedBy(host, &t.Request); err != nil {
		out.Problem = err.Error()
	}
	return out
}

// rejectedBy gives the filter, and its detail, that rejects a host considered alone; empty for none.
func (c *Config) rejectedBy(host schedule.Host, request *schedule.Request) (string, error) {
	alone := schedule.NewTable().Edit()
	alone.PutHost(host)
	p, err := alone.Table().Propose(&schedule.Query{Request: request, Rules: c.Rules.For(""), Limit: 1})
	if err != nil || len(p.Candidates) > 0 {
		return "", err
	}
	typed, _ := selection.Refusal("Nova's host", p)
	if len(typed.GetRejects()) == 0 {
		return "", nil
	}
	r := typed.GetRejects()[0]
	if r.GetDetail() == "" {
		return r.GetFilter(), nil
	}
	return r.GetFilter() + "(" + r.GetDetail() + ")", nil
}

// without gives a host without an instance's usage.
func without(h schedule.Host, i *novadb.Instance) schedule.Host {
	disk := i.EphemeralGB
	if !i.FromVolume {
		disk += i.RootGB
	}
	gone := map[string]int64{"VCPU": i.VCPUs, "MEMORY_MB": i.MemoryMB, "DISK_GB": disk}
	h.Resources = slices.Clone(h.Resources)
	for n := range h.Resources {
		r := &h.Resources[n]
		r.Used = max(0, r.Used-gone[r.Class])
	}
	v := &h.View
	v.VCPUsUsed = max(0, v.VCPUsUsed-i.VCPUs)
	v.FreeRAMMB += i.MemoryMB
	v.FreeDiskMB += disk << 10
	v.DiskUsedMB = max(0, v.DiskUsedMB-disk<<10)
	return h
}
