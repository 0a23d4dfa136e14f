package sqlshard

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

const defaultDecisions = 100

const (
	// The newest decisions of one slot: all, or those with a term.
	newestDecisions = `SELECT ` + decisionColumns + ` FROM decisions
WHERE decision_key >= $1::text AND decision_key < $2::text
ORDER BY decision_key DESC LIMIT $3::int8`
	newestNamed = `SELECT decision_key FROM decision_names
WHERE name = $4::text AND decision_key >= $1::text AND decision_key < $2::text
ORDER BY decision_key DESC LIMIT $3::int8`

	readBodies = `SELECT decision_key, body FROM decisions WHERE decision_key = ANY($1::text[])`
)

// decisionStep is how many decisions of each slot one trip reads.
const decisionStep = 64

// FindDecisions goes from the newest decision to the oldest in all slots at once, by the query's first term, or
// through all decisions.
func (s *Store) FindDecisions(ctx context.Context, q shard.DecisionQuery) (page shard.DecisionPage, err error) {
	if q.Limit <= 0 {
		q.Limit = defaultDecisions
	}
	if !keepable(q.ID + q.From + q.Before) {
		return page, ctx.Err()
	}
	err = s.snapshot(ctx, func(ctx context.Context, c *pgx.Conn) error {
		f := &decisionSearch{conn: c, query: q}
		err := f.run(ctx)
		page = f.page
		return err
	})
	if err != nil {
		return shard.DecisionPage{}, err
	}
	return page, nil
}

// decisionSearch is a page being filled.
type decisionSearch struct {
	conn  *pgx.Conn
	query shard.DecisionQuery
	page  shard.DecisionPage
	bytes int
}

func (f *decisionSearch) run(ctx context.Context) error {
	if f.query.ID != "" {
		found, err := decisionsOf(ctx, f.conn, readDecisions, []string{keyOf(f.query.ID)})
		if err == nil {
			_, err = f.addMatching(ctx, found)
		}
		return err
	}
	for before := f.query.Before; ; {
		found, last, err := f.step(ctx, before)
		if err != nil {
			return err
		}
		full, err := f.addMatching(ctx, found)
		if err != nil || full || last == "" {
			return err
		}
		before = last
	}
}

// step reads the next decisions before an ID. last is the ID before which to continue, "" if there are no more.
func (f *decisionSearch) step(ctx context.Context, before string) (found []storedDecision, last string, err error) {
	name := ""
	if len(f.query.Terms) > 0 {
		name = named(f.query.Terms[0])
	}
	b := &pgx.Batch{}
	for slot := range slots {
		high := slotName(slot) + before
		if before == "" {
			high = slotName(slot + 1)
		}
		low := slotName(slot) + f.query.From
		if name == "" {
			b.Queue(newestDecisions, low, high, decisionStep)
		} else {
			b.Queue(newestNamed, low, high, decisionStep, name)
		}
	}
	// A slot that gave a full step may have more. So nothing below its last one can be used yet.
	var floor string
	var keys []string
	err = eachAnswer(f.conn.SendBatch(ctx, b), slots, func(rows pgx.Rows) error {
		var of []string
		if name == "" {
			list, err := scanDecisions(rows)
			if err != nil {
				return err
			}
			found = append(found, list...)
			of = column(list, func(d storedDecision) string { return d.ID })
		} else {
			list, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			keys = append(keys, list...)
			of = column(list, idOf)
		}
		if len(of) == decisionStep {
			floor = max(floor, of[len(of)-1])
		}
		return nil
	})
	if err == nil && len(keys) > 0 {
		found, err = decisionsOf(ctx, f.conn, readDecisions, keys)
	}
	found = slices.DeleteFunc(found, func(d storedDecision) bool { return d.ID < floor })
	slices.SortFunc(found, func(a, b storedDecision) int { return cmp.Compare(b.ID, a.ID) })
	return found, floor, err
}

// addMatching adds the decisions that match, with their bodies, until the page is full.
func (f *decisionSearch) addMatching(ctx context.Context, found []storedDecision) (full bool, err error) {
	found = slices.DeleteFunc(found, func(d storedDecision) bool { return !f.query.Matches(d.Decision) })
	for len(found) > 0 {
		if len(f.page.Decisions) == f.query.Limit {
			f.page.More = true
			return true, nil
		}
		// A few at a time: bodies can be large.
		n := min(len(found), 16, f.query.Limit-len(f.page.Decisions))
		bodies, err := f.bodies(ctx, found[:n])
		if err != nil {
			return false, err
		}
		for _, d := range found[:n] {
			d.Body = bodies[d.ID]
			if f.bytes += len(d.Body); f.bytes > shard.MaxDecisionPage && len(f.page.Decisions) > 0 {
				f.page.More = true
				return true, nil
			}
			f.page.Decisions = append(f.page.Decisions, *d.Decision)
		}
		found = found[n:]
	}
	return false, nil
}

func (f *decisionSearch) bodies(ctx context.Context, ds []storedDecision) (map[string][]byte, error) {
	rows, err := f.conn.Query(ctx, readBodies, column(ds, func(d storedDecision) string { return keyOf(d.ID) }))
	if err != nil {
		return nil, err
	}
	bodies := map[string][]byte{}
	var key string
	var packed []byte
	_, err = pgx.ForEachRow(rows, []any{&key, &packed}, func() error {
		body, err := rowcodec.Unpack(packed)
		if err != nil {
			return damaged("the body of decision %s cannot be read: %v", idOf(key), err)
		}
		bodies[idOf(key)] = body
		return nil
	})
	return bodies, err
}
