package novadb

import (
	"context"
	"database/sql"
	"iter"
	"time"
)

// Instance is a row of instances. Times are by the clocks of their writers, in UTC; zero is
// NULL.
type Instance struct {
	ID         int64
	UUID       string
	Host, Node string // empty for an instance on no host
	// The amounts of its flavor. Incomplete: one of them is NULL, and 0 here.
	VCPUs, MemoryMB, RootGB, EphemeralGB int64
	Incomplete                           bool
	// FromVolume: its root disk is a volume, so it uses no disk of a host. Nova then writes
	// an empty image_ref; but if the volume was made from an image, the row may name that
	// image.
	FromVolume    bool
	Project, User string
	// VMState and TaskState are vm_state and task_state; empty for NULL.
	VMState, TaskState string
	// Deleted: the row is soft-deleted or hidden. A hidden row is the copy that a resize to
	// another cell leaves in this one until it is confirmed or reverted.
	Deleted bool
	// Gone: the row is soft-deleted, not only hidden: the instance no longer exists.
	Gone                            bool
	CreatedAt, UpdatedAt, DeletedAt time.Time
}

// InstancePoint is where a pass over instances begins.
type InstancePoint struct {
	// Since is the At of an earlier pass: the pass reads rows written since then, also
	// deleted ones. Zero: it reads all live rows.
	Since time.Time
	// After is the Last of a page, after which the pass resumes.
	After int64
	// Witness is the id of the row whose time InstancePage.Age must have; 0 for none.
	Witness int64
}

// InstancePage is some rows, by id.
type InstancePage struct {
	Instances []Instance
	// At is the server's time when this pass, or the resumed part of it, began.
	At time.Time
	// Last is the greatest id up to which rows were read.
	Last int64
	// Age is the same for all pages of a part.
	Age InstanceAge
}

// instanceOverlap is how much further back than Since a pass reads, since a writer's clock
// may be behind, and a commit late. So rows may be read again; each is complete.
const instanceOverlap = 2 * time.Minute

// instanceWindow is how many ids a query covers. The server skips most rows in a pass over
// changes, and a query has a deadline.
const instanceWindow = 50_000

// Instances reads instances in pages of at most PageSize rows. Each page is a query, and all are in one transaction,
// so they are of one server and moment. There is at least one page, even without rows. It ends after the first error.
//
// No index finds changed or deleted rows, so a pass makes the server read the table. A pass over changes misses a row
// that was deleted from the table, a write without a time, and one whose time is more than two minutes wrong. A
// caller that needs those should make a pass over all live rows now and then.
func (r *Reader) Instances(ctx context.Context, from InstancePoint) iter.Seq2[*InstancePage, error] {
	return func(yield func(*InstancePage, error) bool) {
		ended := false
		err := r.cell.transaction(ctx, func(s *session, at time.Time) error {
			age, err := s.instanceAge(ctx, from.Witness, at, r.conf.ServiceDownTime)
			if err != nil {
				return err
			}
			var last int64
			if _, err := s.each(ctx, "SELECT coalesce(max(id), 0) FROM instances", nil, func(rows *sql.Rows) error { return rows.Scan(&last) }); err != nil {
				return err
			}
			columns, err := s.instanceColumns(ctx)
			if err != nil {
				return err
			}
			for after, first := from.After, true; !ended && (first || after < last); first = false {
				p := &InstancePage{At: at, Last: after, Age: age}
				if after < last {
					if err := s.instancePage(ctx, columns, from.Since, after, last, p); err != nil {
						return err
					}
				}
				after = p.Last
				ended = !yield(p, nil)
			}
			return nil
		})
		if err != nil && !ended {
			yield(nil, err)
		}
	}
}

// instanceColumns gives the columns that scanInstance reads, in its order.
func (s *session) instanceColumns(ctx context.Context) (string, error) {
	hidden, err := s.column(ctx, "instances", "hidden", "false") // not before Train
	return `id, uuid, host, node, vcpus, memory_mb, root_gb, ephemeral_gb, project_id, user_id,
	vm_state, task_state, image_ref, deleted, ` + hidden + `, created_at, updated_at, deleted_at`, err
}

// instancePage reads the next page after an id. last is the greatest id of the table.
func (s *session) instancePage(ctx context.Context, columns string, since time.Time, after, last int64, p *InstancePage) error {
	to := min(after+instanceWindow, last)
	which, args := "deleted = 0", []any{after, to}
	if !since.IsZero() {
		which = "(updated_at >= ? OR created_at >= ? OR deleted_at >= ?)"
		t := since.UTC().Add(-instanceOverlap)
		args = append(args, t, t, t)
	}
	n, err := s.each(ctx, "SELECT "+columns+" FROM instances WHERE id > ? AND id <= ? AND "+which+" ORDER BY id LIMIT ?",
		append(args, s.conf.PageSize), func(rows *sql.Rows) error {
			i, err := scanInstance(rows)
			p.Instances = append(p.Instances, i)
			return err
		})
	switch p.Last = to; {
	case n == s.conf.PageSize:
		p.Last = p.Instances[n-1].ID
	case err == nil && n == 0 && to < last:
		// The next row may be many windows away.
		_, err = s.each(ctx, "SELECT min(id) - 1 FROM instances WHERE id > ?", []any{to}, func(rows *sql.Rows) error { return rows.Scan(&p.Last) })
	}
	return err
}

func scanInstance(rows *sql.Rows) (i Instance, err error) {
	var host, node, project, user, vm, task, image sql.NullString
	var vcpus, memory, root, ephemeral, deleted sql.NullInt64
	var hidden truth
	var created, updated, gone nullTime
	err = rows.Scan(&i.ID, &i.UUID, &host, &node, &vcpus, &memory, &root, &ephemeral, &project, &user,
		&vm, &task, &image, &deleted, &hidden, &created, &updated, &gone)
	i.Host, i.Node, i.Project, i.User, i.VMState, i.TaskState = host.String, node.String, project.String, user.String, vm.String, task.String
	i.VCPUs, i.MemoryMB, i.RootGB, i.EphemeralGB = vcpus.Int64, memory.Int64, root.Int64, ephemeral.Int64
	i.Incomplete = !vcpus.Valid || !memory.Valid || !root.Valid || !ephemeral.Valid
	i.FromVolume = image.Valid && image.String == ""
	i.Deleted = !deleted.Valid || deleted.Int64 != 0 || bool(hidden)
	i.Gone = deleted.Valid && deleted.Int64 != 0 && !bool(hidden)
	i.CreatedAt, i.UpdatedAt, i.DeletedAt = utc(created), utc(updated), utc(gone)
	return i, err
}
