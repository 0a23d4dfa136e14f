package proposing

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// PassingOf says which hosts of a table pass a query; nil when that is not asked.
func PassingOf(t *schedule.Table, q *schedule.Query, asked *cellv1.PassingQuery) (*cellv1.Passing, error) {
	if asked == nil {
		return nil, nil
	}
	const n = len(schedule.ID{})
	but := make(map[schedule.ID]struct{}, len(asked.GetBut())/n)
	for ids := asked.GetBut(); len(ids) >= n; ids = ids[n:] {
		but[schedule.ID(ids[:n])] = struct{}{}
	}
	out := &cellv1.Passing{}
	err := t.Passing(q, func(id schedule.ID) {
		if _, is := but[id]; is {
			return
		}
		out.Hosts++
		out.Sum += schedule.Tie(q.Seed, schedule.HostHash(id))
		if asked.GetList() {
			out.Uuids = append(out.Uuids, id[:]...)
		}
	})
	if err != nil {
		return nil, QueryFailure(err)
	}
	return out, nil
}
