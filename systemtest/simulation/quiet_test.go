package simulation

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/cell/agents"
	"cellgate/internal/wire/wiretest"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// longestQuiet covers all work behind answers: the longest lease and its renewal (30 s each), a
// host's silence, the agents' waits between connections (15 s), and the replicas' comparison each
// minute.
const longestQuiet = 110 * time.Second

// compare waits until all is quiet. It then compares shards, tables and hosts with each other, and
// with what callers were promised.
func (w *world) compare() {
	sleep(longestQuiet)
	w.checks.poll()
	for i, c := range w.cells {
		rows, _, err := shardtest.LoadRows(context.Background(), c.store)
		w.must(err)
		for _, wrong := range rows.Check() {
			w.wrong("%s: %s", c.name, wrong)
		}
		w.sameAsJournal(w.checks.cells[i], rows)
		for _, h := range w.hosts {
			if h.cell == c {
				w.compareHost(h, rows)
			}
		}
		w.compareClaims(c, rows)
		for _, r := range c.replicas {
			w.compareTable(r, rows)
		}
	}
	w.compareAborts()
	w.promisesKept()
}

// sameAsJournal checks that the journal gives the same rows as the shard has (I3, I8).
func (w *world) sameAsJournal(k *checkedCell, rows *shardtest.Rows) {
	delivered := shardtest.NewRows()
	delivered.Hosts, delivered.Usages, delivered.AdminStates = k.hosts, k.usages, k.admins
	delivered.Pins, delivered.Gates, delivered.Namespaces = rows.Pins, rows.Gates, rows.Namespaces
	for id, c := range k.claims {
		if c.State.Live() {
			delivered.Claims[id] = c
		}
	}
	for _, d := range rows.Diff(delivered) {
		w.wrong("I8: %s: rows and journal: %s", k.cell.name, d)
	}
}

// compareHost checks that the shard has the state of the host's agent, and claims for its
// instances.
func (w *world) compareHost(h *host, rows *shardtest.Rows) {
	h.mu.Lock()
	truth, _ := h.agent.host.State()
	truth = proto.CloneOf(truth)
	book := h.agent.host.Claims().List()
	h.mu.Unlock()
	row := rows.Hosts[h.uuid]
	if row == nil {
		w.wrong("%s is not in its shard", h.name)
		return
	}
	if row.BootID != truth.GetBootId() || row.StateVersion != truth.GetVersion() || row.Disabled != truth.GetDisabled() || row.IOWorkload != truth.GetIoWorkload() {
		w.wrong("%s: the shard has version %d (of this incarnation: %t), disabled %t, io %d; the agent version %d, %t, %d", h.name,
			row.StateVersion, row.BootID == truth.GetBootId(), row.Disabled, row.IOWorkload, truth.GetVersion(), truth.GetDisabled(), truth.GetIoWorkload())
	}
	for i, inv := range truth.GetProviders()[0].GetInventories() {
		if got := row.Providers[0].Inventories[i]; got.ResourceClass != inv.GetResourceClass() || got.Total != int64(inv.GetTotal()) || got.Reserved != int64(inv.GetReserved()) {
			w.wrong("%s: the shard has %+v, the agent %v", h.name, got, inv)
		}
	}
	if rows.AdminStates[h.uuid].IsSilent() {
		w.wrong("%s: the shard has it that its agent is silent", h.name)
	}
	exist := map[string]*agentv1.Instance{}
	for _, i := range truth.GetInstances() {
		exist[i.GetInstanceUuid()] = i
	}
	claimed := map[string]*shard.Claim{}
	for _, c := range rows.Claims {
		if c.HostUUID != h.uuid {
			continue
		}
		_, there := exist[c.Instance()]
		if there {
			claimed[c.Instance()] = c
		}
		if c.Adopted && !there {
			w.wrong("%s: claim %s (%s) of %s was seen; the instance is not there", h.name, short8(c.ClaimID), c.State, c.Instance())
		}
	}
	for _, id := range sortedKeys(exist) {
		c := claimed[id]
		switch {
		case c == nil:
			w.wrong("%s: instance %s has no claim", h.name, id)
		case c.State != shard.Confirmed || !c.Seen:
			w.wrong("%s: instance %s has claim %s, %s, seen %t", h.name, id, short8(c.ClaimID), c.State, c.Seen)
		default:
			for _, a := range c.Allocations {
				for _, u := range exist[id].GetUsages() {
					if u.GetResourceClass() == a.ResourceClass && int64(u.GetAmount()) != a.Amount {
						w.wrong("%s: instance %s takes %d %s, its claim %d", h.name, id, u.GetAmount(), a.ResourceClass, a.Amount)
					}
				}
			}
		}
	}
	w.compareBook(h, book, rows, exist)
}

// compareBook checks the agent's ledger: it holds exactly the shard's claims whose instances do not
// run yet.
func (w *world) compareBook(h *host, book []*agentv1.HostClaim, rows *shardtest.Rows, exist map[string]*agentv1.Instance) {
	held := map[string]bool{}
	for _, b := range book {
		held[b.GetClaimId()] = true
		if c := rows.Claims[b.GetClaimId()]; b.GetOffered() && (c == nil || c.HostUUID != h.uuid) {
			w.wrong("%s: its book has claim %s of %s (%s); the shard does not", h.name, short8(b.GetClaimId()), b.GetInstanceUuid(), b.GetState())
		}
	}
	for _, b := range book {
		c := rows.Claims[b.GetClaimId()]
		if b.GetState() != agentv1.HostClaim_REJECTED || c == nil || w.plan.mode == agents.VerifyShadow {
			continue
		}
		if c.State == shard.Pending && (c.Verdict == nil || c.Verdict.Outcome != shard.VerdictRejected) {
			w.wrong("%s rejected claim %s, and its shard does not know", h.name, short8(b.GetClaimId()))
		}
	}
	for id, c := range rows.Claims {
		if c.HostUUID == h.uuid && exist[c.Instance()] == nil && !held[id] && !c.Seen {
			w.wrong("%s: its book does not have claim %s of %s (%s)", h.name, short8(id), c.ConsumerUUID, c.State)
		}
	}
}

// compareClaims checks that every claim belongs to a running instance, or to a caller that was
// given it (I4).
func (w *world) compareClaims(c *simCell, rows *shardtest.Rows) {
	want, may := w.checks.wanted()
	for _, id := range sortedKeys(rows.Claims) {
		claim := rows.Claims[id]
		switch {
		case claim.State == shard.Pending:
			w.wrong("I4: claim %s of %s in %s is still PENDING, until %v", short8(id), claim.ConsumerUUID, c.name, claim.ExpiresAt)
		case w.hostOf(claim.HostUUID).has(claim.Instance()), want[id] != nil, may[id] != nil:
		default:
			w.wrong("I4: claim %s of %s on %s (%s, adopted %t, seen %t) is nobody's", short8(id), claim.ConsumerUUID, claim.ServiceHost, claim.State, claim.Adopted, claim.Seen)
		}
	}
}

// promisesKept checks that every claim that was confirmed and not released is live (I3, I8).
func (w *world) promisesKept() {
	want, _ := w.checks.wanted()
	w.checks.mu.Lock()
	defer w.checks.mu.Unlock()
	for _, id := range sortedKeys(want) {
		p := want[id]
		c := w.checks.claimOf(id)
		if c == nil || c.State != shard.Confirmed {
			w.wrong("I3: claim %s of %s was confirmed, and is %+v", short8(id), p.consumer, c)
		}
	}
}

// free returns what a host has left of a resource class, by the shard's rows.
func free(rows *shardtest.Rows, h *host, class string) int64 {
	for _, inv := range rows.Hosts[h.uuid].Providers[0].Inventories {
		if inv.ResourceClass == class {
			return inv.Capacity() - rows.Usages[h.uuid].Of(h.uuid, class)
		}
	}
	return 0
}

// compareTable asks a replica's table which hosts fit, at each amount where the answer changes. The
// answers must match the shard's rows.
func (w *world) compareTable(r *replica, rows *shardtest.Rows) {
	incarnation := newIncarnation()
	defer incarnation.die()
	conn, err := w.net.dialer("checker", incarnation)(r.name)
	w.must(err)
	defer func() { w.must(conn.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := cellv1.NewCellSchedulerClient(conn)
	listed, err := client.ListHosts(ctx, &cellv1.ListHostsRequest{})
	if err != nil {
		w.wrong("%s does not list its hosts: %v", r.name, err)
		return
	}
	mine := map[string]*host{}
	for _, h := range w.hosts {
		if h.cell == r.cell && rows.Hosts[h.uuid] != nil {
			mine[h.uuid] = h
		}
	}
	if len(listed.GetHosts()) != len(mine) {
		w.wrong("%s lists %d hosts of %d", r.name, len(listed.GetHosts()), len(mine))
	}
	for _, got := range listed.GetHosts() {
		h := mine[got.GetHostUuid()]
		if h == nil {
			w.wrong("%s lists host %s", r.name, got.GetHostUuid())
			continue
		}
		row, usage := rows.Hosts[h.uuid], rows.Usages[h.uuid]
		var counted int32
		if usage != nil {
			counted = usage.Pending + usage.Confirmed
		}
		if !got.GetUp() || got.GetEnabled() == row.Disabled || got.GetInstances() != counted {
			w.wrong("%s: %s is up %t, enabled %t, has %d claims; the shard: disabled %t, %d", r.name, h.name, got.GetUp(), got.GetEnabled(), got.GetInstances(), row.Disabled, counted)
		}
		for _, inv := range got.GetInventories() {
			if used := usage.Of(inv.GetProviderUuid(), inv.GetResourceClass()); int64(inv.GetUsed()) != used {
				w.wrong("%s: %s has %d %s in use, the shard %d", r.name, h.name, inv.GetUsed(), inv.GetResourceClass(), used)
			}
		}
	}
	for _, class := range []string{"VCPU", "MEMORY_MB", "DISK_GB"} {
		for _, at := range sortedKeys(mine) {
			for _, amount := range []int64{free(rows, mine[at], class), free(rows, mine[at], class) + 1} {
				if amount > 0 {
					w.comparePassing(ctx, r, client, mine, rows, class, amount)
				}
			}
		}
	}
	w.compareGroups(ctx, r, client, rows)
}

func placement(m *cellv1.Placement) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// comparePassing checks that exactly the hosts with so much left pass.
func (w *world) comparePassing(ctx context.Context, r *replica, client cellv1.CellSchedulerClient, mine map[string]*host, rows *shardtest.Rows, class string, amount int64) {
	w.checks.checked()
	out, err := client.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{{Limit: 100, Seed: 1, Placement: placement(&cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: class, Amount: int32(amount)}}, Consume: &cellv1.Consumption{},
	})}}})
	if err != nil {
		w.wrong("%s does not propose: %v", r.name, err)
		return
	}
	passed := map[string]bool{}
	for _, uuid := range wiretest.Hosts(out.GetProposals()[0]) {
		passed[uuid] = true
	}
	for uuid, h := range mine {
		if should := free(rows, h, class) >= amount && !rows.Hosts[uuid].Disabled; should != passed[uuid] {
			w.wrong("%s: %s passes for %d %s: %t; it has %d", r.name, h.name, amount, class, passed[uuid], free(rows, h, class))
		}
	}
}

// compareGroups checks that the table knows the hosts of groups' members.
func (w *world) compareGroups(ctx context.Context, r *replica, client cellv1.CellSchedulerClient, rows *shardtest.Rows) {
	groups := map[string]map[string]map[string]bool{} // members by group and host
	for _, c := range rows.Claims {
		if c.Group != nil {
			if groups[c.Group.UUID] == nil {
				groups[c.Group.UUID] = map[string]map[string]bool{}
			}
			if groups[c.Group.UUID][c.HostUUID] == nil {
				groups[c.Group.UUID][c.HostUUID] = map[string]bool{}
			}
			groups[c.Group.UUID][c.HostUUID][c.Instance()] = true
		}
	}
	for n := 1; n <= 4; n++ {
		group := uuidOf(0x6, n)
		out, err := client.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{{Limit: 1, Seed: 1, Placement: placement(&cellv1.Placement{
			Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}, Consume: &cellv1.Consumption{},
			Group: &cellv1.Group{Uuid: group, Policy: policyOf(n)},
		})}}})
		if err != nil {
			w.wrong("%s does not propose for a group: %v", r.name, err)
			continue
		}
		got := map[string]int{}
		for _, g := range out.GetProposals()[0].GetGroupHosts() {
			got[g.GetHostUuid()] = int(g.GetMembers())
		}
		want := map[string]int{}
		for host, members := range groups[group] {
			want[host] = len(members)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			w.wrong("%s: group %d has members %v, the shard %v", r.name, n, got, want)
		}
	}
}
