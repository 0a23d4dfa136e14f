package legacy

import (
	"context"
	"database/sql"

	"cellgate/schedule"
)

// Find gives the live rows of instances with these uuids but hidden ones, in no order. The server finds
// them by its index of uuids.
func (r *Reader) Find(ctx context.Context, uuids []schedule.ID) ([]Instance, error) {
	s, err := r.cell.take(ctx)
	if err != nil {
		return nil, err
	}
	defer s.end(ctx)
	columns, err := s.instanceColumns(ctx)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(uuids))
	for i, id := range uuids {
		texts[i] = id.String()
	}
	var out []Instance
	_, err = inFew(ctx, s, "SELECT "+columns+" FROM instances WHERE deleted = 0 AND uuid IN ("+listOfFew+")", texts, func(rows *sql.Rows) error {
		i, err := scanInstance(rows)
		if !i.Deleted {
			out = append(out, i)
		}
		return err
	})
	return out, err
}
