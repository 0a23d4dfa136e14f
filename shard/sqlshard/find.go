package sqlshard

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/shard"
)

const defaultPage = 1000

// Live and ended claims.
const (
	findByKey       = `SELECT c.body FROM claims c WHERE c.claim_key = ANY($1::text[])`
	endedByKey      = `SELECT c.body FROM ended_claims c WHERE c.claim_key = ANY($1::text[])`
	endedByConsumer = `SELECT c.body FROM ended_claims@ended_claims_by_consumer c WHERE c.consumer_uuid = ANY($1::text[])`
	endedByHost     = `SELECT c.body FROM ended_claims@ended_claims_by_host c WHERE c.host_uuid = ANY($1::text[])`

	// findKeys and endedKeys read one slot in order.
	findKeys = `SELECT claim_key FROM claims
WHERE claim_key > $1::text AND claim_key < $2::text AND ($3::text = '' OR project_id = $3::text)
ORDER BY claim_key LIMIT $4::int8`
	endedKeys = `SELECT claim_key FROM ended_claims
WHERE claim_key > $1::text AND claim_key < $2::text AND ($3::text = '' OR project_id = $3::text)
ORDER BY claim_key LIMIT $4::int8`
)

const (
	dueLeases = `SELECT expires_at, claim_key, consumer_uuid FROM claims
WHERE slot = $1::text AND expires_at > 0 AND expires_at <= $2::int8 ORDER BY expires_at, claim_key LIMIT $3::int8`
)

// FindClaims reads claims by the query's claims, consumers or host. If it has none, it reads all slots at once.
func (s *Store) FindClaims(ctx context.Context, q shard.ClaimQuery) (page shard.ClaimPage, err error) {
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	if !keepable(q.HostUUID + q.ProjectID + q.After) {
		return page, ctx.Err()
	}
	err = s.snapshot(ctx, func(ctx context.Context, c *pgx.Conn) error {
		page = shard.ClaimPage{}
		live, ended := findByKey, endedByKey
		var arg any
		switch {
		case len(q.ClaimIDs) > 0:
			arg = keepableOf(keysOf(q.ClaimIDs))
		case len(q.ConsumerUUIDs) > 0:
			live, ended, arg = readClaimsOfConsumers, endedByConsumer, keepableOf(q.ConsumerUUIDs)
		case q.HostUUID != "":
			live, ended, arg = readClaimsOfHosts, endedByHost, []string{q.HostUUID}
		default:
			keys, err := pageOfKeys(ctx, c, q)
			if err != nil || len(keys) == 0 {
				return err
			}
			arg = keys
		}
		list, err := claimsOf(ctx, c, s.grammar.hinted(live), arg)
		if err != nil {
			return err
		}
		if q.Ended {
			more, err := claimsOf(ctx, c, s.grammar.hinted(ended), arg)
			if err != nil {
				return err
			}
			list = append(list, more...)
		}
		list = slices.DeleteFunc(list, func(c *shard.Claim) bool { return !q.Matches(c) })
		slices.SortFunc(list, func(a, b *shard.Claim) int { return cmp.Compare(a.ClaimID, b.ClaimID) })
		page.More = len(list) > q.Limit
		page.Claims = list[:min(q.Limit, len(list))]
		return nil
	})
	return page, err
}

// keepableOf gives the names that a database can have.
func keepableOf(list []string) []string { return slices.DeleteFunc(slices.Clone(list), unkeepable) }

// pageOfKeys gives the keys of a page, and one more if there is one, from the first keys of all slots.
func pageOfKeys(ctx context.Context, c *pgx.Conn, q shard.ClaimQuery) ([]string, error) {
	b := &pgx.Batch{}
	for slot := range slots {
		args := []any{slotName(slot) + q.After, slotName(slot + 1), q.ProjectID, q.Limit + 1}
		b.Queue(findKeys, args...)
		if q.Ended {
			b.Queue(endedKeys, args...)
		}
	}
	var keys []string
	err := eachAnswer(c.SendBatch(ctx, b), b.Len(), func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		keys = append(keys, list...)
		return err
	})
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(idOf(a), idOf(b)) })
	return keys[:min(q.Limit+1, len(keys))], err
}

// eachAnswer reads n results of a batch.
func eachAnswer(r pgx.BatchResults, n int, scan func(pgx.Rows) error) (err error) {
	defer func() {
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}()
	for range n {
		rows, err := r.Query()
		if err == nil {
			err = scan(rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Due reads the first leases of all slots.
func (s *Store) Due(ctx context.Context, limit int) ([]shard.ClaimRef, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	type lease struct {
		end int64
		ref shard.ClaimRef
	}
	var all []lease
	err = s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		all = nil
		b := &pgx.Batch{}
		for slot := range slots {
			b.Queue(dueLeases, slotName(slot), now.UnixNano(), limit)
		}
		return eachAnswer(c.SendBatch(ctx, b), slots, func(rows pgx.Rows) error {
			var l lease
			var key string
			_, err := pgx.ForEachRow(rows, []any{&l.end, &key, &l.ref.ConsumerUUID}, func() error {
				l.ref.ClaimID = idOf(key)
				all = append(all, l)
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b lease) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.ref.ClaimID, b.ref.ClaimID))
	})
	refs := make([]shard.ClaimRef, min(limit, len(all)))
	for i := range refs {
		refs[i] = all[i].ref
	}
	return refs, nil
}
