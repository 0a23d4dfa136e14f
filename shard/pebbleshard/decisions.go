package pebbleshard

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	storagev1 "cellgate/proto/cellgate/storage/v1"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// decisions serializes writes of decisions. They do not wait for the disk: their batches reach it with the next
// synced one.
type decisions struct {
	mu sync.Mutex
	// all is the amount of stored decisions.
	all amount
}

// amount is a number of decisions and the bytes of their stored bodies.
type amount struct {
	n     int
	bytes int64
}

func (a *amount) add(b amount) { a.n += b.n; a.bytes += b.bytes }

// PutDecisions writes all decisions in one batch, without a sync.
func (s *Store) PutDecisions(ctx context.Context, ds []shard.Decision) error {
	if err := shard.CheckDecisions(ds); err != nil {
		return err
	}
	// Of several with the same ID the last one counts.
	last := make(map[string]int, len(ds))
	for i := range ds {
		last[ds[i].ID] = i
	}
	return s.writeDecisions(ctx, func(b *pebble.Batch) (amount, error) {
		var added amount
		for i := range ds {
			if last[ds[i].ID] != i {
				continue
			}
			old, size, err := readDecision(s.db, ds[i].ID)
			if err != nil {
				return amount{}, err
			}
			if old == nil {
				added.n++
			} else if err := unname(b, old); err != nil {
				return amount{}, err
			}
			added.bytes += int64(len(ds[i].Body)) - size
			if err := setDecision(b, &ds[i]); err != nil {
				return amount{}, err
			}
		}
		return added, nil
	})
}

// writeDecisions fills a batch and writes it; fill returns by how much it changes the amount.
func (s *Store) writeDecisions(ctx context.Context, fill func(b *pebble.Batch) (amount, error)) error {
	s.using.RLock()
	defer s.using.RUnlock()
	s.decisions.mu.Lock()
	defer s.decisions.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	err := s.usable()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	b := s.db.NewBatch()
	added, err := fill(b)
	if err != nil {
		return errors.Join(unreadable(err), b.Close())
	}
	if b.Empty() {
		return b.Close()
	}
	if err := guarded(func() error { return s.db.Apply(b, pebble.NoSync) }); err != nil {
		s.ends.set(err, false)
		return fault.Wrap(fault.OutcomeUnknown, err, "the shard of cell %s failed to write", s.opts.Cell)
	}
	s.decisions.all.add(added)
	return b.Close()
}

func setDecision(b *pebble.Batch, d *shard.Decision) error {
	row, err := proto.Marshal(&storagev1.Decision{
		At: rowcodec.Nanos(d.At), Terms: d.Terms, BodyBytes: int64(len(d.Body)),
	})
	if err == nil {
		err = b.Set(nameKey(decisionKey, d.ID), row, nil)
	}
	if err == nil {
		err = b.Set(nameKey(bodyKey, d.ID), d.Body, nil)
	}
	for _, term := range d.Terms {
		if err == nil {
			err = b.Set(append(named(term), d.ID...), nil, nil)
		}
	}
	return err
}

// unname removes a decision from the indexes.
func unname(b *pebble.Batch, d *shard.Decision) error {
	for _, term := range d.Terms {
		if err := b.Delete(append(named(term), d.ID...), nil); err != nil {
			return err
		}
	}
	return nil
}

// named is the key prefix of the decisions with a term. Different terms may have the same prefix, so readers check
// the terms.
func named(term string) []byte {
	sum := sha256.Sum256([]byte(term))
	return append([]byte{namedKey}, sum[:8]...)
}

// readDecision reads a decision without its body, and the size of the body; nil if it does not exist.
func readDecision(r pebble.Reader, id string) (*shard.Decision, int64, error) {
	row, closer, err := r.Get(nameKey(decisionKey, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	d, size, err := decodeDecision(id, row)
	return d, size, errors.Join(err, closer.Close())
}

func decodeDecision(id string, row []byte) (*shard.Decision, int64, error) {
	m := &storagev1.Decision{}
	if err := proto.Unmarshal(row, m); err != nil {
		return nil, 0, err
	}
	return &shard.Decision{ID: id, At: rowcodec.Instant(m.At), Terms: m.Terms}, m.BodyBytes, nil
}

// countDecisions counts the stored decisions, at Open.
func (s *Store) countDecisions() error {
	return s.each(decisionKey, func(row []byte) error {
		m := &storagev1.Decision{}
		if err := proto.Unmarshal(row, m); err != nil {
			return err
		}
		s.decisions.all.add(amount{1, m.BodyBytes})
		return nil
	})
}

// TrimDecisions drops the oldest in steps: those older than before, those beyond keep, and those beyond
// Options.MaxDecisionBytes.
func (s *Store) TrimDecisions(ctx context.Context, before time.Time, keep int) error {
	for more := true; more; {
		err := s.writeDecisions(ctx, func(b *pebble.Batch) (amount, error) {
			over := amount{n: s.decisions.all.n - keep}
			if most := s.opts.MaxDecisionBytes; most > 0 {
				over.bytes = s.decisions.all.bytes - most
			}
			dropped, err := s.trimDecisions(b, before, over)
			more = dropped.n == trimStep
			return amount{-dropped.n, -dropped.bytes}, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// trimDecisions drops at most trimStep decisions: those over the bounds on number or bytes, and those older than
// before.
func (s *Store) trimDecisions(b *pebble.Batch, before time.Time, over amount) (dropped amount, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{decisionKey}, UpperBound: after([]byte{decisionKey})})
	if err != nil {
		return dropped, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var first, end string
	for ok := it.First(); ok && dropped.n < trimStep; ok = it.Next() {
		row, err := it.ValueAndErr()
		if err != nil {
			return dropped, err
		}
		d, size, err := decodeDecision(string(it.Key()[1:]), row)
		if err != nil {
			return dropped, err
		}
		if dropped.n >= over.n && dropped.bytes >= over.bytes && !d.At.Before(before) {
			break
		}
		if err := unname(b, d); err != nil {
			return dropped, err
		}
		if dropped.n == 0 {
			first = d.ID
		}
		end = d.ID + "\x00"
		dropped.add(amount{1, size})
	}
	if dropped.n == 0 {
		return dropped, nil
	}
	return dropped, errors.Join(
		b.DeleteRange(nameKey(decisionKey, first), nameKey(decisionKey, end), nil),
		b.DeleteRange(nameKey(bodyKey, first), nameKey(bodyKey, end), nil),
	)
}
