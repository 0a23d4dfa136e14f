package importer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cellgate/gateway/legacy/novadb"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// Difference is how the shard differs from the rows, as far as lists of hosts and claims show
// it. Facts of hosts are not compared.
type Difference struct {
	At time.Time
	// Counts are complete; Lines are the first differences by kind, without equal hosts and instances.
	Counts map[What]int
	Lines  []Line
}

// What is how a host or an instance differs.
type What string

// The kinds, hosts first.
const (
	HostNew     What = "host_new"
	HostChanged What = "host_changed"
	HostEqual   What = "host_equal"
	// HostAgents is a host that the import leaves to its agent.
	HostAgents  What = "host_left_to_agent"
	HostGone    What = "host_gone"
	HostLeftOut What = "host_left_out"
	// InstanceAdopted has no claim, so an import adopts it. InstanceConfirmed has a PENDING
	// claim on its host, InstanceEqual a CONFIRMED one there, and InstanceConflict one
	// elsewhere.
	InstanceAdopted   What = "instance_adopted"
	InstanceConfirmed What = "instance_confirmed"
	InstanceEqual     What = "instance_equal"
	InstanceConflict  What = "instance_conflict"
	// InstanceDiffers has a CONFIRMED claim on its host with another VCPU or MEMORY_MB than
	// its row.
	InstanceDiffers What = "instance_differs"
	// InstanceReleased is a claim whose instance is no longer on its host: an adopted claim,
	// or a request's claim whose instance was once in a report of the host.
	InstanceReleased What = "instance_released"
	InstanceLeftOut  What = "instance_left_out"
	// InstanceWithoutClaim is on a host whose agent knows its instances, and has no claim
	// anywhere: its room may be given to others.
	InstanceWithoutClaim What = "instance_without_claim"
	// ClaimWithoutInstance is a request's claim that was confirmed long ago, whose instance
	// has no row, and that no import releases.
	ClaimWithoutInstance What = "claim_without_instance"
	// OverCapacity is a class of a host of which claims would use more than the capacity.
	OverCapacity What = "over_capacity"
)

// Line is one difference.
type Line struct {
	What   What   `json:"what"`
	UUID   string `json:"uuid"`
	Host   string `json:"host"`
	Detail string `json:"detail,omitempty"`
}

// Compare makes a full pass over instances, and compares the rows with the shard. It changes
// nothing in the shard. Every instance of the rows counts. It is for an Importer that makes
// no steps.
func (m *Importer) Compare(ctx context.Context, x *novadb.Snapshot, to Cell) (*Difference, error) {
	m.stepping.Lock()
	defer m.stepping.Unlock()
	m.Again()
	if _, err := m.pass(ctx, m.rows(x)); err != nil {
		return nil, err
	}
	for _, i := range m.known.by {
		i.first = 0
	}
	c := &comparing{d: &Difference{At: x.At, Counts: map[What]int{}}, most: m.conf.MaxLeftOut, hosts: map[schedule.ID]*cellgatev1.Host{}, claims: map[string][]*cellgatev1.Claim{}, on: map[string][]*claim{}}
	err := eachHost(ctx, to, func(h *cellgatev1.Host) {
		if id, err := schedule.ParseID(h.GetHostUuid()); err == nil {
			c.hosts[id] = h
		}
		m.conf.Progress("hosts of the shard", len(c.hosts), 0)
	})
	if err == nil {
		err = eachClaim(ctx, to, func(k *claim) {
			c.claims[k.GetConsumerUuid()] = append(c.claims[k.GetConsumerUuid()], k.Claim)
			c.on[k.GetHostUuid()] = append(c.on[k.GetHostUuid()], k)
			m.conf.Progress("claims of the shard", len(c.claims), 0)
		})
	}
	if err != nil {
		return nil, err
	}
	var r Report
	p := m.newPlanning(x, &r)
	for i := range x.Hosts {
		row := &x.Hosts[i]
		at := place{row.ServiceHost, row.NodeName}
		for _, q := range p.placesOf(at) {
			p.used[q] = true
		}
		on, _, _ := p.instancesOf(at)
		c.host(m, row, p.services[row.ServiceID], on)
	}
	p.leftOut()
	for _, l := range r.LeftOut {
		c.say(InstanceLeftOut, l.UUID, l.Host, "%s: %s", l.Reason, l.Detail)
	}
	c.d.Counts[InstanceLeftOut] -= len(r.LeftOut)
	for _, n := range r.LeftOutBy {
		c.d.Counts[InstanceLeftOut] += n
	}
	for i := range x.LeftOut {
		o := &x.LeftOut[i]
		c.say(HostLeftOut, o.UUID, o.Host, "%s %s %s", o.Reason, o.Column, o.Detail)
	}
	for _, n := range x.LeftOutBy {
		c.d.Counts[HostLeftOut] += n
	}
	c.d.Counts[HostLeftOut] -= len(x.LeftOut)
	c.rest()
	c.withoutInstance(m.known, x.At)
	return c.d, nil
}

// comparing is the state of one comparison. Compared objects are removed from hosts and claims.
type comparing struct {
	d     *Difference
	most  int
	hosts map[schedule.ID]*cellgatev1.Host
	// claims are by consumer, on by host.
	claims map[string][]*cellgatev1.Claim
	on     map[string][]*claim
}

func (c *comparing) say(what What, uuid, host, format string, args ...any) {
	c.d.Counts[what]++
	if what != HostEqual && what != InstanceEqual && len(c.d.Lines) < c.most {
		c.d.Lines = append(c.d.Lines, Line{what, uuid, host, fmt.Sprintf(format, args...)})
	}
}

func (c *comparing) host(m *Importer, row *novadb.Host, service *novadb.Service, on []*instance) {
	id := row.UUID.String()
	there := c.hosts[row.UUID]
	delete(c.hosts, row.UUID)
	if agents(there) {
		c.say(HostAgents, id, row.ServiceHost, "agent version %d", there.GetAgentVersion())
		if there.GetInstancesUnknown() {
			if state, why := m.stateOf(row, service, on, false); why != nil {
				c.say(HostLeftOut, id, row.ServiceHost, "%s", why.Detail)
			} else {
				c.instances(state, there.GetInventories())
			}
			return
		}
		for _, i := range on {
			if uuid := i.uuid.String(); len(c.claims[uuid]) == 0 {
				c.say(InstanceWithoutClaim, uuid, row.ServiceHost, "the agent does not list it: others are placed on its room")
			}
		}
		return
	}
	state, why := m.stateOf(row, service, on, false)
	if why != nil {
		c.say(HostLeftOut, id, row.ServiceHost, "%s", why.Detail)
		return
	}
	switch diff := changes(there, state); {
	case there == nil:
		c.say(HostNew, id, row.ServiceHost, "%s", amounts(state))
	case diff != "":
		c.say(HostChanged, id, row.ServiceHost, "%s", diff)
	default:
		c.say(HostEqual, id, row.ServiceHost, "")
	}
	var has []*cellgatev1.HostInventory
	for _, i := range state.GetProviders()[0].GetInventories() {
		has = append(has, &cellgatev1.HostInventory{
			ProviderUuid: id, ResourceClass: i.GetResourceClass(), Total: i.GetTotal(), Reserved: i.GetReserved(), AllocationRatio: i.GetAllocationRatio(), Unaccounted: i.GetUnaccounted(),
		})
	}
	c.instances(state, has)
}

// rest reports the hosts of the shard that have no row.
func (c *comparing) rest() {
	for _, id := range slices.SortedFunc(maps.Keys(c.hosts), func(a, b schedule.ID) int { return slices.Compare(a[:], b[:]) }) {
		h := c.hosts[id]
		if agents(h) {
			c.say(HostAgents, h.GetHostUuid(), h.GetServiceHost(), "agent version %d, and no row in compute_nodes", h.GetAgentVersion())
			continue
		}
		c.say(HostGone, h.GetHostUuid(), h.GetServiceHost(), "no row in compute_nodes that is a host; it has %d claims", len(c.on[h.GetHostUuid()]))
	}
}

// changes gives how a host of the shard differs from its rows; "" if a list of hosts shows no
// difference.
func changes(there *cellgatev1.Host, state *agentv1.FullState) string {
	var all []string
	say := func(what string, old, now any) {
		if old != now {
			all = append(all, fmt.Sprintf("%s %v -> %v", what, old, now))
		}
	}
	say("service host", there.GetServiceHost(), state.GetServiceHost())
	say("node", there.GetNodename(), state.GetNodename())
	say("enabled", there.GetEnabled(), !state.GetDisabled())
	say("disabled reason", there.GetDisabledReason(), state.GetDisabledReason())
	had := map[string]*cellgatev1.HostInventory{}
	for _, i := range there.GetInventories() {
		had[i.GetResourceClass()] = i
	}
	for _, i := range state.GetProviders()[0].GetInventories() {
		old := had[i.GetResourceClass()]
		say(i.GetResourceClass()+" total", old.GetTotal(), i.GetTotal())
		say(i.GetResourceClass()+" reserved", old.GetReserved(), i.GetReserved())
		say(i.GetResourceClass()+" unaccounted", old.GetUnaccounted(), i.GetUnaccounted())
		say(i.GetResourceClass()+" ratio", old.GetAllocationRatio(), i.GetAllocationRatio())
	}
	say("aggregates", aggregatesText(there.GetAggregates()), aggregatesText(state.GetAggregates()))
	return strings.Join(all, ", ")
}

// aggregatesText gives equal texts for equal sets of aggregates.
func aggregatesText[A interface {
	GetUuid() string
	GetName() string
	GetMetadata() map[string]string
}](in []A) string {
	all := make([]string, len(in))
	for i, a := range in {
		all[i] = a.GetName() + fmt.Sprint(a.GetMetadata()) // fmt sorts keys
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func amounts(s *agentv1.FullState) string {
	var all []string
	for _, i := range s.GetProviders()[0].GetInventories() {
		all = append(all, fmt.Sprintf("%s %d, %d in use by no instance", i.GetResourceClass(), i.GetTotal(), i.GetUnaccounted()))
	}
	return strings.Join(all, "; ")
}
