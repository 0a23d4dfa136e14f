package novadb

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"
)

// tracked is a node as a snapshot has it.
type tracked struct {
	*node
	// The stamp was first seen at first, and the row last read at read, both in the server's
	// time. If read is less than Overlap after first, another write may have the same stamp.
	first, read time.Time
}

// clockSlack is how far a writer's clock may be behind the server's, if a row that is seen
// for the first time is to count as written long ago.
const clockSlack = time.Minute

// track records that a row was read at a time.
func (r *Reader) track(n *node, at time.Time, before *tracked) tracked {
	t := tracked{node: n, first: at, read: at}
	switch {
	case before != nil && before.row.stamp.equal(n.row.stamp):
		t.first = before.first
	case before == nil && at.Sub(n.row.stamp.changed()) > r.conf.Overlap+clockSlack:
		t.first = time.Time{}
	}
	return t
}

// find gives the node of a row among nodes, which are sorted by id; nil for none.
func find(nodes []tracked, id int64) *tracked {
	i, found := slices.BinarySearchFunc(nodes, id, func(t tracked, id int64) int { return cmp.Compare(t.row.id, id) })
	if !found {
		return nil
	}
	return &nodes[i]
}

func (r *Reader) settled(t *tracked) bool { return t.read.Sub(t.first) >= r.conf.Overlap }

// allNodes reads every live row. Unchanged rows keep their nodes.
func (r *Reader) allNodes(ctx context.Context, s *session, x *Snapshot, before []tracked) error {
	x.nodes = make([]tracked, 0, len(before))
	n, err := s.pages(ctx, list{
		table: "compute_nodes", page: r.conf.PageSize, max: r.conf.MaxRows,
		text: "SELECT " + nodeColumns + " FROM compute_nodes WHERE deleted = 0 AND id > ? ORDER BY id LIMIT ?",
	}, func(rows *sql.Rows) (int64, error) {
		var row nodeRow
		if err := row.scan(rows); err != nil {
			return 0, err
		}
		old := find(before, row.id)
		x.nodes = append(x.nodes, r.track(r.renew(row, x, old), x.At, old))
		return row.id, nil
	})
	x.Read.ComputeNodes += n
	return err
}

// renew converts a row, unless it is unchanged.
func (r *Reader) renew(row nodeRow, x *Snapshot, old *tracked) *node {
	if old != nil && old.row == row {
		return old.node
	}
	return r.convert(row, x.revision, old)
}

// stampPage is how many stamps a query reads, since they are small.
const stampPage = 10_000

// changedNodes reads the stamps of all live rows, and then the rows whose stamp is not known,
// or under whose stamp there may have been another write.
func (r *Reader) changedNodes(ctx context.Context, s *session, x *Snapshot, before []tracked) error {
	var ids []int64
	n, err := s.pages(ctx, list{
		table: "compute_nodes", page: stampPage, max: r.conf.MaxRows,
		text: "SELECT id, created_at, updated_at FROM compute_nodes WHERE deleted = 0 AND id > ? ORDER BY id LIMIT ?",
	}, func(rows *sql.Rows) (id int64, err error) {
		var st stamp
		if err := rows.Scan(&id, &st.created, &st.updated); err != nil {
			return 0, err
		}
		t := tracked{node: &node{row: nodeRow{id: id}}}
		if old := find(before, id); old != nil {
			t = *old
		}
		if t.read.IsZero() || !t.row.stamp.equal(st) || !r.settled(&t) {
			ids = append(ids, id)
		}
		x.nodes = append(x.nodes, t)
		return id, nil
	})
	x.Read.Stamps += n
	if err != nil {
		return err
	}
	if len(ids) > len(x.nodes)/2 {
		x.nodes = nil
		return r.allNodes(ctx, s, x, before)
	}
	return r.nodesAgain(ctx, s, x, ids)
}

// nodesAgain reads rows by id into their places.
func (r *Reader) nodesAgain(ctx context.Context, s *session, x *Snapshot, ids []int64) error {
	n, err := inFew(ctx, s, "SELECT "+nodeColumns+" FROM compute_nodes WHERE deleted = 0 AND id IN ("+listOfFew+")", ids,
		func(rows *sql.Rows) error {
			var row nodeRow
			if err := row.scan(rows); err != nil {
				return err
			}
			at := find(x.nodes, row.id)
			old := at
			if at.read.IsZero() {
				old = nil
			}
			*at = r.track(r.renew(row, x, old), x.At, old)
			return nil
		})
	x.Read.ComputeNodes += n
	return err
}
