package gateway

import (
	"google.golang.org/protobuf/proto"

	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// queryFrom decodes a query as a cell does. It panics if the query is malformed.
func queryFrom(q *cellv1.Query) *schedule.Query {
	p := &cellv1.Placement{}
	if err := proto.Unmarshal(q.GetPlacement(), p); err != nil {
		panic(err)
	}
	var r wire.Fields
	out := r.Query(q, r.Request(p), r.Rules(p.GetRules()))
	if err := r.Err(); err != nil {
		panic(err)
	}
	return out
}

func mustID(s string) schedule.ID {
	id, err := schedule.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}
