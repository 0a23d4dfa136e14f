package main

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"cellgate/gateway/importer"
	"cellgate/gateway/legacy"
)

// movingRows notes which instances of the rows that pass are on a move.
type movingRows struct {
	importer.Rows
	moving map[string]legacy.Instance
}

// Instances is importer.Rows'.
func (r *movingRows) Instances(ctx context.Context, from legacy.InstancePoint) iter.Seq2[*legacy.InstancePage, error] {
	return func(yield func(*legacy.InstancePage, error) bool) {
		for p, err := range r.Rows.Instances(ctx, from) {
			if p != nil {
				for _, i := range p.Instances {
					if delete(r.moving, i.UUID); isMoving(&i) {
						r.moving[i.UUID] = i
					}
				}
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// moveTasks are Nova's task states of resizes and migrations.
var moveTasks = []string{"resize_prep", "resize_migrating", "resize_migrated", "resize_finish", "resize_reverting", "resize_confirming", "migrating"}

func isMoving(i *legacy.Instance) bool {
	return !i.Deleted && i.Host != "" && (i.VMState == "resized" || slices.Contains(moveTasks, i.TaskState))
}

// moves names the instances on a move: both of its hosts have room in use for it, by their
// rows, and an agent reports it on one of them. What the other keeps is in the shard only
// when cellgate chose the move.
func (u *upgrade) moves(moving map[string]legacy.Instance, now time.Time) {
	const kept = " the row of its other host has room in use for it, and the shard has none there once that is an agent's, unless cellgate chose the move; "
	comes := "SHADOW finds more free there by the shard, and waits for as long as that lasts"
	if u.native {
		comes = "others are placed there, and a revert may find no room"
	}
	all := slices.SortedFunc(maps.Values(moving), func(a, b legacy.Instance) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.UUID, b.UUID))
	})
	var resized, others []diagnosis
	for _, i := range all {
		d := diagnosis{Check: "move of " + i.UUID + " on " + i.Host}
		if i.VMState == "resized" && i.TaskState == "" {
			d.What = "it is resized or migrated, neither confirmed nor reverted, and was changed last " + age(now, i.UpdatedAt) + ":" + kept + comes
			d.Do = "confirm or revert: openstack server resize confirm " + i.UUID + " (or revert); resize_confirm_window in the computes' nova.conf confirms by itself"
			resized = append(resized, d)
			continue
		}
		d.What = "its task is " + i.TaskState + ", and it was changed last " + age(now, i.UpdatedAt) + ":" + kept + comes
		d.Do = "wait until it has ended, and confirm or revert it then (openstack server migration list --server " + i.UUID + "); one that is stuck: openstack server migration abort"
		others = append(others, d)
	}
	waits, passing := warned, warned
	switch {
	case u.native:
		waits, passing = noted, noted
	case u.differs:
		waits = unhealthy
	}
	u.each("moves", waits, resized)
	u.each("moves under way", passing, others)
}
