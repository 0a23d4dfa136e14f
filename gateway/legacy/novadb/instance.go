package novadb

import (
	"context"
	"database/sql"
	"iter"
	"time"
)

// Instance is a row of instances. Times are those of whoever wrote them, in UTC;
// zero is NULL.
type Instance struct {
	ID         int64
	UUID       string
	Host, Node string // empty for one that is on no host
	// The amounts of its flavor. Incomplete: one of them is NULL, and 0 here.
	VCPUs, MemoryMB, RootGB, EphemeralGB int64
	Incomplete                           bool
	// FromVolume: its root disk is a volume, so that no host has it. Nova writes an empty
	// image_ref then; one whose root volume was made of an image may name that all the same.
	FromVolume    bool
	Project, User string
	// VMState and TaskState are vm_state and task_state; empty for NULL.
	VMState, TaskState string
	// Deleted: the row is soft-deleted, or hidden: the copy that a resize to another cell
	// leaves in this one until it is confirmed or reverted.
	Deleted bool
	// Gone: Deleted, and not for being hidden: the instance is no more.
	Gone                            bool
	CreatedAt, UpdatedAt, DeletedAt time.Time
}

// InstancePoint says where a pass over instances begins.
type InstancePoint struct {
	// Since is the At of an earlier pass: rows written since, deleted ones too. The
	// zero time: all live rows.
	Since time.Time
	// After is the Last of a page: the pass goes on behind it.
	After int64
	// Witness is the id of a row that InstancePage.Age is to have; 0 for none.
	Witness int64
}

// InstancePage is some rows, by id.
type InstancePage struct {
	Instances []Instance
	// At is the server's time when this pass, or the part of it that went on from a
	// point, began.
	At time.Time
	// Last is the greatest id that has been looked at.
	Last int64
	// Age is the same for all pages of a part.
	Age InstanceAge
}

// instanceOverlap is how much further back than Since a pass reads: a writer's clock
// may be behind, a commit late. So rows come again; they are whole each time.
const instanceOverlap = 2 * time.Minute

// instanceWindow is how many ids a query covers: most rows of a pass over changes
// are skipped by the server, and a query has a deadline.
const instanceWindow = 50_000

// Instances passes over instances, at most PageSize rows a page, each page a query of
// its own, all of them in one transaction: they are of one server and moment. There is a
// page even where there are no rows. It ends after the first error. There is no index by which the server finds
// changed rows, deleted ones above all: a pass makes it read the table. What it
// misses is a row that was deleted from the table, and a write that left no time or
// one more than two minutes wrong: whoever needs to know compares with a pass over
// all live rows now and then.
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
					if err := s.instancePage(ctx, columns, from.Since, after, p); err != nil {
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

// instanceColumns are what scanInstance reads, in its order.
func (s *session) instanceColumns(ctx context.Context) (string, error) {
	hidden, err := s.column(ctx, "instances", "hidden", "false") // not before Train
	return `id, uuid, host, node, vcpus, memory_mb, root_gb, ephemeral_gb, project_id, user_id,
	vm_state, task_state, image_ref, deleted, ` + hidden + `, created_at, updated_at, deleted_at`, err
}

func (s *session) instancePage(ctx context.Context, columns string, since time.Time, after int64, p *InstancePage) error {
	to := after + instanceWindow
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
	p.Last = to
	if n == s.conf.PageSize {
		p.Last = p.Instances[n-1].ID
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
