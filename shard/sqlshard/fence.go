package sqlshard

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// fenced is the error of a fenced lane. newest is its replica's newest incarnation; 0 if it is not known.
func (s *Store) fenced(id shard.LaneID, newest uint64) error {
	if newest > id.Incarnation {
		return fault.Wrap(fault.CellUnavailable, shard.ErrFenced, "replica %s has begun incarnation %d, which ended incarnation %d in cell %s", id.Replica, newest, id.Incarnation, s.opts.Cell)
	}
	return fault.Wrap(fault.CellUnavailable, shard.ErrFenced, "incarnation %d of replica %s in cell %s was ended", id.Incarnation, id.Replica, s.opts.Cell)
}

// checkFence fails if the lane that this store opened last was fenced.
func (s *Store) checkFence(lanes []laneRow) error {
	own := s.own.Load()
	if own == nil || !slices.ContainsFunc(lanes, func(l laneRow) bool { return l.id == *own && l.fenced }) {
		return nil
	}
	newest := own.Incarnation
	for _, l := range lanes {
		if l.id.Replica == own.Replica {
			newest = max(newest, l.id.Incarnation)
		}
	}
	return s.fenced(*own, newest)
}

// retry is the store's retry. If the lane was fenced, it reads which incarnation did so.
func (l *lane) retry(ctx context.Context, once func(ctx context.Context) error) error {
	s := l.store
	return s.retry(ctx, func(ctx context.Context) error {
		err := once(ctx)
		if !errors.Is(err, shard.ErrFenced) {
			return err
		}
		c, err := s.acquire(ctx)
		if err != nil {
			return s.fenced(l.id, 0)
		}
		defer c.Release()
		var newest int64
		if err := c.QueryRow(ctx, lastIncarnation, l.id.Replica).Scan(&newest); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return s.fenced(l.id, 0)
		}
		return s.fenced(l.id, uint64(newest))
	})
}
