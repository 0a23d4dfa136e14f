package pebbleshard

import (
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	storagev1 "cellgate/proto/cellgate/storage/v1"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// lane is the lane of one incarnation of a replica.
type lane struct {
	store *Store
	id    shard.LaneID
	state *laneState // guarded by store.mu
	// turn is held by the running Apply.
	turn chan struct{}
	// last is the lane's last commit. Guarded by turn.
	last *commit
}

// OpenLane starts a lane. Its incarnation is higher than all earlier ones.
func (s *Store) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	if replica == "" {
		return nil, fault.Invalid("replica", "must not be empty")
	}
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	state := &laneState{id: shard.LaneID{Replica: replica, Incarnation: s.lastIncarnation + 1}}
	b := s.db.NewBatch()
	err := b.Set(incarnationKey, binary.BigEndian.AppendUint64(nil, state.id.Incarnation), nil)
	if err == nil {
		err = setLane(b, state)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, fault.Wrap(fault.Internal, err, "replica %q cannot be written", replica)
	}
	c, err := s.commit(b)
	if err == nil {
		s.lastIncarnation = state.id.Incarnation
		s.lanes[state.id.Incarnation] = state
	}
	s.mu.Unlock()
	if err == nil {
		err = s.durable(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return &lane{store: s, id: state.id, state: state, turn: make(chan struct{}, 1)}, nil
}

func setLane(b *pebble.Batch, l *laneState) error {
	row, err := proto.Marshal(&storagev1.Lane{Replica: l.id.Replica, Incarnation: l.id.Incarnation, Floor: l.floor, Last: l.last})
	if err != nil {
		return err
	}
	return b.Set(numberKey(laneKey, l.id.Incarnation), row, nil)
}

func (l *lane) ID() shard.LaneID { return l.id }

// Apply decides under the store's lock, and waits for the sync without it.
func (l *lane) Apply(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return shard.Applied{}, ctx.Err()
	}
	// If an earlier context ended during its wait for a sync, that sync may still be running.
	if err := l.store.durable(ctx, l.last); err != nil {
		return shard.Applied{}, err
	}
	if err := ctx.Err(); err != nil {
		return shard.Applied{}, err
	}
	applied, c, err := l.decide(ops)
	if err != nil {
		return shard.Applied{}, err
	}
	err = l.store.durable(ctx, c)
	switch {
	case err == nil:
		return applied, nil
	case applied.Entry.Seq == 0:
		return shard.Applied{}, err // nothing was written
	default:
		return shard.Applied{}, fault.Wrap(fault.OutcomeUnknown, err, "the shard of cell %s did not say that it wrote", l.store.opts.Cell)
	}
}

// decide runs the operations and writes the result. It gives the commit to wait for: its own, or the last one that it
// may have read.
func (l *lane) decide(ops []shard.Op) (shard.Applied, *commit, error) {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return shard.Applied{}, nil, err
	}
	v, err := s.view(shard.ReadSetOf(ops))
	if err != nil {
		return shard.Applied{}, nil, err
	}
	ended := tombstonesIn(v)
	now := s.clock.tick()
	d := shard.Decide(now, v, ops)
	applied := shard.Applied{Outcomes: d.Outcomes}
	if len(d.Changes) == 0 {
		return applied, s.last, nil
	}
	next := *l.state
	next.last++
	applied.Entry = shard.Entry{Lane: next.id, Seq: next.last, At: now, Changes: d.Changes}
	b := s.db.NewBatch()
	if err := writeEntry(b, &next, applied.Entry, ended); err != nil {
		return shard.Applied{}, nil, fault.Wrap(fault.Internal, err, "a batch cannot be written")
	}
	if err := s.sizes.replace(ended, d.Changes); err != nil {
		return shard.Applied{}, nil, fault.Wrap(fault.Internal, err, "a batch cannot be written")
	}
	c, err := s.commit(b)
	if err != nil {
		return shard.Applied{}, nil, err
	}
	*l.state, l.last = next, c
	for _, ch := range d.Changes {
		s.rows.put(ch)
	}
	return applied, c, nil
}

// tombstonesIn gives the ended claims in a view, by id. It must run before Decide, which replaces them.
func tombstonesIn(v *shard.View) map[string]*shard.Claim {
	var ended map[string]*shard.Claim
	for id, c := range v.Claims {
		if !c.State.Live() {
			if ended == nil {
				ended = map[string]*shard.Claim{}
			}
			ended[id] = c
		}
	}
	return ended
}

// writeEntry puts an entry and its rows into a batch. ended are the existing tombstones of its claims.
func writeEntry(b *pebble.Batch, l *laneState, e shard.Entry, ended map[string]*shard.Claim) error {
	if err := setLane(b, l); err != nil {
		return err
	}
	journal := rowcodec.AppendTime(make([]byte, 0, 512*len(e.Changes)), e.At)
	var buf []byte
	for _, ch := range e.Changes {
		longer, field, row, err := rowcodec.Row(buf[:0], ch)
		if err != nil {
			return err
		}
		buf, journal = longer, rowcodec.AppendRow(journal, field, row)
		if err := setRow(b, ch, row, ended); err != nil {
			return err
		}
	}
	return b.Set(journalKey(l.id.Incarnation, e.Seq), journal, nil)
}

func setRow(b *pebble.Batch, ch shard.Change, row []byte, ended map[string]*shard.Claim) error {
	switch {
	case ch.Host != nil:
		return b.Set(nameKey(hostKey, ch.Host.UUID), row, nil)
	case ch.Usage != nil:
		return b.Set(nameKey(usageKey, ch.Usage.HostUUID), row, nil)
	case ch.Claim != nil:
		return setClaim(b, ch.Claim, row, ended)
	case ch.Gate != nil:
		return b.Set([]byte{gateKey}, row, nil)
	case ch.Namespace != nil && ch.Namespace.Deleted():
		return b.Delete(namespaceKeyOf(ch.Namespace.HostUUID, ch.Namespace.Name), nil)
	case ch.Namespace != nil:
		return b.Set(namespaceKeyOf(ch.Namespace.HostUUID, ch.Namespace.Name), row, nil)
	case ch.AdminState != nil:
		return b.Set(nameKey(adminKey, ch.AdminState.HostUUID), row, nil)
	case ch.Name != nil && ch.Name.Gone:
		return b.Delete(customNameKeyOf(ch.Name.NameRef), nil)
	case ch.Name != nil:
		return b.Set(customNameKeyOf(ch.Name.NameRef), row, nil)
	case len(ch.Pin.Holders) == 0:
		return b.Delete(nameKey(pinKey, ch.Pin.GroupUUID), nil)
	default:
		return b.Set(nameKey(pinKey, ch.Pin.GroupUUID), row, nil)
	}
}

// setClaim stores a claim in one place: among the live claims, or among the tombstones with their two indexes.
func setClaim(b *pebble.Batch, c *shard.Claim, row []byte, ended map[string]*shard.Claim) error {
	old := ended[c.ClaimID]
	if old != nil {
		if err := b.Delete(tombstoneEndKey(old.UpdatedAt, c.ClaimID), nil); err != nil {
			return err
		}
	}
	if !c.State.Live() {
		if err := b.Delete(nameKey(claimKey, c.ClaimID), nil); err != nil {
			return err
		}
		if err := b.Set(tombstoneEndKey(c.UpdatedAt, c.ClaimID), nil, nil); err != nil {
			return err
		}
		if err := b.Set(endedOfKey(c.ConsumerUUID, c.ClaimID), nil, nil); err != nil {
			return err
		}
		return b.Set(nameKey(tombstoneKey, c.ClaimID), row, nil)
	}
	if old != nil {
		if err := b.Delete(nameKey(tombstoneKey, c.ClaimID), nil); err != nil {
			return err
		}
		if err := b.Delete(endedOfKey(old.ConsumerUUID, c.ClaimID), nil); err != nil {
			return err
		}
	}
	return b.Set(nameKey(claimKey, c.ClaimID), row, nil)
}
