package sqlshard

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// picture is everything that a transaction has locked and read.
type picture struct {
	server time.Time
	// usages are those of the locked hosts.
	usages map[string]*shard.Usage
	// generations are those of the existing hosts; hosts are their rows.
	generations map[string]int64
	hosts       map[string]*shard.Host
	// claims by id.
	claims map[string]*shard.Claim
	// consumers and groups are the existing guard rows.
	consumers map[string]bool
	groups    map[string]bool
	pins      map[string]*shard.Pin
	// custom are the existing names, by customKey.
	custom map[string]bool
	gate   *shard.Gate
	// namespaces by host uuid, then name.
	namespaces map[string]map[string]*shard.Namespace
	// admins by host uuid.
	admins map[string]encoded[shard.AdminState]
}

func newPicture(n *names) *picture {
	return &picture{
		usages: make(map[string]*shard.Usage, len(n.hosts)), generations: make(map[string]int64, len(n.hosts)),
		hosts:  make(map[string]*shard.Host, len(n.hosts)),
		claims: map[string]*shard.Claim{}, consumers: map[string]bool{}, groups: map[string]bool{},
		custom: map[string]bool{}, pins: map[string]*shard.Pin{}, namespaces: map[string]map[string]*shard.Namespace{}, admins: map[string]encoded[shard.AdminState]{},
	}
}

// question is a statement of the read trip, with the function that reads its result.
type question struct {
	sql  string
	args []any
	scan func(pgx.Rows) error
}

// lockAndRead begins a transaction, and locks and reads the named rows in one trip. It then reads the details.
func (l *lane) lockAndRead(ctx context.Context, c *pgx.Conn, n *names) (*picture, error) {
	p := newPicture(n)
	questions := l.questions(p, n)
	b := &pgx.Batch{}
	b.Queue(l.store.server.begin(l.store.opts.Isolation))
	for _, q := range questions {
		b.Queue(q.sql, q.args...)
	}
	if err := answers(c.SendBatch(ctx, b), questions); err != nil {
		return nil, err
	}
	return p, l.details(ctx, c, p, n)
}

// answers reads the results of a batch: of its first statement, then of the questions.
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

// questions lists the statements of the read trip: locks first, in the order that every transaction uses.
func (l *lane) questions(p *picture, n *names) []question {
	var all []question
	ask := func(list []string, sql string, scan func(pgx.Rows) error) {
		if len(list) > 0 {
			all = append(all, question{sql, []any{list}, scan})
		}
	}
	gate := func(r pgx.Rows) error {
		return scanBodies(r, "gate", rowcodec.Gate, func(g *shard.Gate) error { p.gate = g; return nil })
	}
	if n.movesGate {
		all = append(all, question{lockGate, nil, gate})
	}
	ask(n.hosts, lockHosts, func(r pgx.Rows) error { return l.store.scanUsages(r, p) })
	if l.store.server.needsGuards() {
		ask(n.consumers, lockConsumers, func(r pgx.Rows) error { return scanNames(r, p.consumers) })
		ask(n.groups, lockGroups, func(r pgx.Rows) error { return scanNames(r, p.groups) })
	}
	ask(n.pins, lockPins, func(r pgx.Rows) error {
		return scanBodies(r, "pins", rowcodec.Pin, func(pin *shard.Pin) error { p.pins[pin.GroupUUID] = pin; return nil })
	})
	ask(n.custom, lockNames, func(r pgx.Rows) error { return scanNames(r, p.custom) })
	all = append(all, question{l.store.server.readLane(), []any{l.id.Replica, int64(l.id.Incarnation), int64(l.settled())}, func(r pgx.Rows) error { return l.position(r, p) }})
	ask(n.namespaces, readNamespaces, func(r pgx.Rows) error {
		list, err := scanNamespaces(r)
		for _, n := range list {
			p.addNamespace(n)
		}
		return err
	})
	if n.gate && !n.movesGate {
		all = append(all, question{readGate, nil, gate})
	}
	hinted := l.store.grammar.hinted
	claims := func(r pgx.Rows) error { return scanBodies(r, "claims", rowcodec.Claim, p.add) }
	if len(n.claims)+len(n.consumers) > 0 {
		all = append(all, question{hinted(readStanding), []any{append([]string{}, n.claims...), append([]string{}, n.consumers...)}, claims})
	}
	ask(n.groups, hinted(readMembers), claims)
	ask(n.hostClaims, hinted(readClaimsOfHosts), claims)
	return all
}

// position reads the lane's row and the time. It fails if the lane is missing or fenced, or if its last settled entry
// is missing.
func (l *lane) position(r pgx.Rows, p *picture) error {
	var fenced, there bool
	found := false
	_, err := pgx.ForEachRow(r, []any{&fenced, &p.server, &there}, func() error { found = true; return nil })
	switch {
	case err != nil:
		return err
	case !found:
		return l.missing()
	case fenced:
		return shard.ErrFenced
	case !there:
		return fault.Wrap(fault.Internal, shard.ErrBroken, "entry %d of lane %s/%d is not in its shard: the database was put back to an earlier state", l.settled(), l.id.Replica, l.id.Incarnation)
	}
	return nil
}

func (l *lane) missing() error {
	return fault.Wrap(fault.Internal, shard.ErrBroken, "lane %s/%d is not in its shard", l.id.Replica, l.id.Incarnation)
}

// add adds a claim, which several statements may find. A live row wins over an ended one of the same id.
func (p *picture) add(c *shard.Claim) error {
	if old := p.claims[c.ClaimID]; old == nil || !old.State.Live() {
		p.claims[c.ClaimID] = c
	}
	return nil
}

// details reads the host rows that are not cached, and transferred claims; without any it makes no trip.
func (l *lane) details(ctx context.Context, c *pgx.Conn, p *picture, n *names) error {
	if err := l.transferred(ctx, c, p, n); err != nil {
		return err
	}
	var missing []string
	for id, g := range p.generations {
		if h := l.store.hosts.get(id, g); h != nil {
			p.hosts[id] = h
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	read, err := l.store.loadHosts(ctx, c, readHosts, missing)
	for _, h := range read {
		p.hosts[h.UUID] = h
	}
	return err
}

// transferred reads the claims that were transferred from the consumers of claims that a state may end; without any it
// makes no trip. The read trip has those of the named consumers, which most claims on an aligned host are of.
func (l *lane) transferred(ctx context.Context, c *pgx.Conn, p *picture, n *names) error {
	var consumers []string
	for _, claim := range p.claims {
		if has(n.aligned, claim.HostUUID) && claim.State.Live() && claim.GoesWithout(true) && !has(n.consumers, claim.ConsumerUUID) {
			consumers = append(consumers, claim.ConsumerUUID)
		}
	}
	if len(consumers) == 0 {
		return nil
	}
	slices.Sort(consumers)
	rows, err := c.Query(ctx, l.store.grammar.hinted(readTransferred), consumers)
	if err != nil {
		return err
	}
	return scanBodies(rows, "claims", rowcodec.Claim, p.add)
}

// view gives the View for Decide. It shares only the rows.
func (p *picture) view(n *names) *shard.View {
	v := shard.NewView(shard.ReadSet{Hosts: n.hosts, Claims: n.claims, Consumers: n.consumers})
	for id, h := range p.hosts {
		v.Hosts[id] = h
	}
	v.Gate = p.gate
	for id, u := range p.usages {
		if u.Generation > 0 {
			v.Usages[id] = u
		}
	}
	for id, pin := range p.pins {
		v.Pins[id] = pin
	}
	for key := range p.custom {
		v.Names[customRef(key)] = true
	}
	for id, of := range p.namespaces {
		v.Namespaces[id] = maps.Clone(of)
	}
	for id, a := range p.admins {
		v.AdminStates[id] = a.row
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

// scanUsages reads the rows of lockHosts.
func (s *Store) scanUsages(r pgx.Rows, p *picture) error {
	var u shard.Usage
	var host int64
	var text string
	var admin []byte
	_, err := pgx.ForEachRow(r, []any{&u.HostUUID, &host, &u.Generation, &u.Pending, &u.Confirmed, &text, &admin}, func() error {
		p.generations[u.HostUUID] = host
		if len(admin) > 0 {
			a, err := rowcodec.AdminState(admin)
			if err != nil {
				return damaged("the admin state of host %s cannot be decoded: %v", u.HostUUID, err)
			}
			p.admins[u.HostUUID] = encoded[shard.AdminState]{a, bytes.Clone(admin)}
		}
		if known := s.usages.get(u.HostUUID, u.Generation); known != nil {
			p.usages[u.HostUUID] = known
			return nil
		}
		one := u
		var err error
		one.Used, err = textUsed(text)
		p.usages[u.HostUUID] = &one
		return err
	})
	return err
}
