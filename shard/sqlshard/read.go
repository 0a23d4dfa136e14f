package sqlshard

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// picture is what a transaction has locked and read.
type picture struct {
	// last is the lane's last entry.
	last   uint64
	server time.Time
	// usages has the hosts that are locked.
	usages map[string]*shard.Usage
	// generations are the hosts that there are; hosts the rows of them.
	generations map[string]int64
	hosts       map[string]*shard.Host
	// claims by id, whole.
	claims map[string]*shard.Claim
	// consumers and groups have the rows that there are to lock.
	consumers map[string]bool
	groups    map[string]bool
	pins      map[string]*shard.Pin
	// filled are the claims, by key, whose allocations were read.
	filled map[string]bool
}

// question is a statement of the read trip, and what is done with its answer.
type question struct {
	sql  string
	args []any
	scan func(pgx.Rows) error
}

// look begins a transaction, locks what is named and reads it, in one trip, and in a
// second one what the first cannot know: rows of hosts that are not in memory, and
// allocations of claims that were not named.
func (l *lane) look(ctx context.Context, c *pgx.Conn, n *names) (*picture, error) {
	p := &picture{
		usages: map[string]*shard.Usage{}, generations: map[string]int64{}, hosts: map[string]*shard.Host{},
		claims: map[string]*shard.Claim{}, consumers: map[string]bool{}, groups: map[string]bool{},
		pins: map[string]*shard.Pin{}, filled: map[string]bool{},
	}
	questions := l.questions(p, n)
	b := &pgx.Batch{}
	b.Queue(l.store.server.begin(l.store.opts.Isolation))
	for _, q := range questions {
		b.Queue(q.sql, q.args...)
	}
	if err := answers(c.SendBatch(ctx, b), questions); err != nil {
		return nil, err
	}
	return p, l.details(ctx, c, p)
}

// answers reads what a batch with a first statement of its own was answered.
func answers(r pgx.BatchResults, questions []question) (err error) {
	defer func() {
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}()
	if _, err := r.Exec(); err != nil {
		return err
	}
	for _, q := range questions {
		rows, err := r.Query()
		if err == nil {
			err = q.scan(rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// questions lists the read trip: locks first, in the order in which every
// transaction takes them.
func (l *lane) questions(p *picture, n *names) []question {
	all := []question{{lockLane, []any{l.id.Replica, int64(l.id.Life)}, func(r pgx.Rows) error { return l.position(r, p) }}}
	ask := func(list []string, sql string, scan func(pgx.Rows) error) {
		if len(list) > 0 {
			all = append(all, question{sql, []any{list}, scan})
		}
	}
	ask(n.hosts, lockHosts, func(r pgx.Rows) error { return scanHostUsages(r, p.usages) })
	ask(n.consumers, lockConsumers, func(r pgx.Rows) error { return scanNames(r, p.consumers) })
	ask(n.groups, lockGroups, func(r pgx.Rows) error { return scanNames(r, p.groups) })
	ask(n.pins, lockPins, func(r pgx.Rows) error {
		return scanPins(r, func(pin *shard.Pin) error { p.pins[pin.GroupUUID] = pin; return nil })
	})
	all = append(all, question{serverTime, nil, func(r pgx.Rows) error {
		_, err := pgx.ForEachRow(r, []any{&p.server}, func() error { return nil })
		return err
	}})
	claims := func(r pgx.Rows) error { return scanClaims(r, p.add) }
	ask(n.hosts, readHostGenerations, func(r pgx.Rows) error {
		var id string
		var g int64
		_, err := pgx.ForEachRow(r, []any{&id, &g}, func() error { p.generations[id] = g; return nil })
		return err
	})
	ask(n.hosts, readUsages, func(r pgx.Rows) error { return scanUsages(r, p.usages) })
	ask(n.claims, readClaims, claims)
	ask(n.consumers, readClaimsOfConsumers, claims)
	ask(n.consumers, readTransfers, claims)
	ask(n.groups, readMembers, claims)
	ask(n.hostClaims, readClaimsOfHosts, claims)
	ask(n.claims, readAllocations, func(r pgx.Rows) error {
		for _, key := range n.claims {
			p.filled[key] = true
		}
		return scanAllocations(r, p.allocate)
	})
	return all
}

// position reads where the lane is, and fails when it must not go on.
func (l *lane) position(r pgx.Rows, p *picture) error {
	found, fenced := false, false
	var last int64
	_, err := pgx.ForEachRow(r, []any{&last, &fenced}, func() error { found = true; return nil })
	if err != nil {
		return err
	}
	return l.check(found, fenced, uint64(last), &p.last)
}

// check fails when a lane's row says that it is not this process's to go on with.
func (l *lane) check(found, fenced bool, last uint64, to *uint64) error {
	switch {
	case !found:
		return damaged("lane %s/%d is not in its shard", l.id.Replica, l.id.Life)
	case fenced:
		return fault.New(fault.CellUnavailable, "replica %s has begun a newer life than %d, which ended this one", l.id.Replica, l.id.Life)
	}
	*to = last
	return nil
}

// add takes a claim, which may be found in several ways.
func (p *picture) add(c *shard.Claim) {
	if p.claims[c.ClaimID] == nil {
		p.claims[c.ClaimID] = c
	}
}

func (p *picture) allocate(key string, u shard.Used) {
	if c := p.claims[idOf(key)]; c != nil {
		c.Allocations = append(c.Allocations, u)
	}
}

// details reads what is missing from a picture; no trip when nothing is.
func (l *lane) details(ctx context.Context, c *pgx.Conn, p *picture) error {
	var hosts, keys []string
	for id, g := range p.generations {
		if h := l.store.hosts.get(id, g); h != nil {
			p.hosts[id] = h
		} else {
			hosts = append(hosts, id)
		}
	}
	for id := range p.claims {
		if key := keyOf(id); !p.filled[key] {
			keys = append(keys, key)
		}
	}
	if len(hosts) == 0 && len(keys) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	b.Queue(readAllocations, keys)
	queueHosts(b, hosts)
	r := c.SendBatch(ctx, b)
	rows, err := r.Query()
	if err == nil {
		err = scanAllocations(rows, p.allocate)
	}
	if err == nil {
		var read []*shard.Host
		if read, err = scanHosts(r); err == nil {
			for _, h := range read {
				l.store.hosts.put(h)
				p.hosts[h.UUID] = h
			}
		}
	}
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return err
}

// view gives what Decide works on. It shares the rows, and nothing else.
func (p *picture) view() *shard.View {
	v := shard.NewView()
	for id, h := range p.hosts {
		v.Hosts[id] = h
	}
	for id, u := range p.usages {
		if u.Generation > 0 {
			v.Usages[id] = u
		}
	}
	for id, pin := range p.pins {
		v.Pins[id] = pin
	}
	for id, c := range p.claims {
		v.Claims[id] = c
		if !c.State.Live() {
			continue
		}
		v.LiveByConsumer[c.ConsumerUUID] = append(v.LiveByConsumer[c.ConsumerUUID], id)
		v.LiveByHost[c.HostUUID] = append(v.LiveByHost[c.HostUUID], id)
		if c.TransferredFrom != "" {
			v.TransferredFrom[c.TransferredFrom] = append(v.TransferredFrom[c.TransferredFrom], id)
		}
		if c.Group != nil {
			v.LiveByGroup[c.Group.UUID] = append(v.LiveByGroup[c.Group.UUID], id)
		}
	}
	return v
}

func scanNames(r pgx.Rows, to map[string]bool) error {
	var name string
	_, err := pgx.ForEachRow(r, []any{&name}, func() error { to[name] = true; return nil })
	return err
}

func scanHostUsages(r pgx.Rows, to map[string]*shard.Usage) error {
	var u shard.Usage
	_, err := pgx.ForEachRow(r, []any{&u.HostUUID, &u.Generation, &u.Pending, &u.Confirmed}, func() error {
		one := u
		to[u.HostUUID] = &one
		return nil
	})
	return err
}

// scanUsages adds what is in use to the hosts there are.
func scanUsages(r pgx.Rows, to map[string]*shard.Usage) error {
	var host string
	var used shard.Used
	_, err := pgx.ForEachRow(r, []any{&host, &used.ProviderUUID, &used.ResourceClass, &used.Amount}, func() error {
		u := to[host]
		if u == nil {
			return restart("a host appeared after its row was looked for")
		}
		u.Used = append(u.Used, used)
		return nil
	})
	return err
}
