package shardtest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"cellgate/shard"
)

// Rows are a shard's rows by key.
type Rows struct {
	Hosts  map[string]*shard.Host
	Usages map[string]*shard.Usage
	// Claims may have ended ones until Live.
	Claims map[string]*shard.Claim
	Pins   map[string]*shard.Pin
	// Gates has the shard's gate, if there is one, under "".
	Gates map[string]*shard.Gate
	// Namespaces are by host uuid and name, with a blank between.
	Namespaces map[string]*shard.Namespace
	// AdminStates are by host uuid.
	AdminStates map[string]*shard.AdminState
	// Names has the names that are not gone.
	Names map[string]*shard.CustomName
	// pinned is the time of the last journal entry that changed a pin or a name.
	pinned map[string]time.Time
}

// NewRows makes an empty set.
func NewRows() *Rows {
	return &Rows{
		Hosts: map[string]*shard.Host{}, Usages: map[string]*shard.Usage{},
		Claims: map[string]*shard.Claim{}, Pins: map[string]*shard.Pin{}, Gates: map[string]*shard.Gate{},
		Namespaces: map[string]*shard.Namespace{}, AdminStates: map[string]*shard.AdminState{}, Names: map[string]*shard.CustomName{},
		pinned: map[string]time.Time{},
	}
}

// LoadRows loads a shard.
func LoadRows(ctx context.Context, r shard.Synchronizer) (*Rows, shard.Cursor, error) {
	rows := NewRows()
	at, err := r.Load(ctx, func(c shard.Change) error {
		rows.Put(c, time.Time{})
		return nil
	})
	return rows, at, err
}

// rowsOf gives the live rows of a view that has all rows.
func rowsOf(v *shard.View) *Rows {
	r := NewRows()
	r.Hosts, r.Usages, r.Claims, r.Pins, r.AdminStates = v.Hosts, v.Usages, maps.Clone(v.Claims), v.Pins, v.AdminStates
	for host, of := range v.Namespaces {
		for name, n := range of {
			r.Namespaces[host+" "+name] = n
		}
	}
	for ref, is := range v.Names {
		if is {
			r.Names[string(ref.Kind)+" "+ref.Name] = &shard.CustomName{NameRef: ref}
		}
	}
	if v.Gate != nil {
		r.Gates[""] = v.Gate
	}
	return r.Live()
}

// Put stores a row from Load (at is zero) or from the journal. Lanes may come in any order: an older row does not
// replace a newer one.
func (r *Rows) Put(c shard.Change, at time.Time) {
	switch {
	case c.Host != nil:
		if old := r.Hosts[c.Host.UUID]; old == nil || old.Generation < c.Host.Generation {
			r.Hosts[c.Host.UUID] = c.Host
		}
	case c.Usage != nil:
		if old := r.Usages[c.Usage.HostUUID]; old == nil || old.Generation < c.Usage.Generation {
			r.Usages[c.Usage.HostUUID] = c.Usage
		}
	case c.Claim != nil:
		old := r.Claims[c.Claim.ClaimID]
		if old != nil && old.UpdatedAt.After(c.Claim.UpdatedAt) {
			return
		}
		// Put keeps ended claims, so that an older row cannot bring one back.
		r.Claims[c.Claim.ClaimID] = c.Claim
	case c.Gate != nil:
		if old := r.Gates[""]; old == nil || old.Revision < c.Gate.Revision {
			r.Gates[""] = c.Gate
		}
	case c.Namespace != nil:
		key := c.Namespace.HostUUID + " " + c.Namespace.Name
		// Put keeps deleted namespaces, so that an older row cannot bring one back.
		if old := r.Namespaces[key]; old == nil || old.Generation < c.Namespace.Generation {
			r.Namespaces[key] = c.Namespace
		}
	case c.AdminState != nil:
		if old := r.AdminStates[c.AdminState.HostUUID]; old == nil || old.Generation < c.AdminState.Generation {
			r.AdminStates[c.AdminState.HostUUID] = c.AdminState
		}
	case c.Name != nil:
		key := string(c.Name.Kind) + " " + c.Name.Name
		if r.pinned[key].After(at) {
			return
		}
		r.pinned[key] = at
		r.Names[key] = c.Name
		if c.Name.Gone {
			delete(r.Names, key)
		}
	case c.Pin != nil:
		if r.pinned[c.Pin.GroupUUID].After(at) {
			return
		}
		r.pinned[c.Pin.GroupUUID] = at
		r.Pins[c.Pin.GroupUUID] = c.Pin
		if len(c.Pin.Holders) == 0 {
			delete(r.Pins, c.Pin.GroupUUID)
		}
	}
}

// Live drops the ended claims and the deleted namespaces.
func (r *Rows) Live() *Rows {
	for key, n := range r.Namespaces {
		if n.Facts == "" {
			delete(r.Namespaces, key)
		}
	}
	for id, c := range r.Claims {
		if !c.State.Live() {
			delete(r.Claims, id)
		}
	}
	return r
}

// Check returns where the rows do not add up. Usage is the sum of the live claims, and a consumer has one live claim
// and at most one beside it that moves it (I2).
func (r *Rows) Check() []string {
	var wrong []string
	byConsumer := map[string][]*shard.Claim{}
	type key struct{ host, provider, class string }
	sum := map[key]int64{}
	pending, confirmed := map[string]int32{}, map[string]int32{}
	for id, c := range r.Claims {
		if !c.State.Live() {
			wrong = append(wrong, fmt.Sprintf("claim %s is %s among the live ones", id, c.State))
			continue
		}
		for _, other := range byConsumer[c.ConsumerUUID] {
			if !shard.MayCoexist(other, c) {
				wrong = append(wrong, fmt.Sprintf("I2: consumer %s has live claims %s and %s", c.ConsumerUUID, id, other.ClaimID))
			}
		}
		byConsumer[c.ConsumerUUID] = append(byConsumer[c.ConsumerUUID], c)
		for _, a := range c.Allocations {
			sum[key{c.HostUUID, a.ProviderUUID, a.ResourceClass}] += a.Amount
		}
		switch {
		case c.State == shard.Confirmed:
			confirmed[c.HostUUID]++
			if !c.ExpiresAt.IsZero() {
				wrong = append(wrong, fmt.Sprintf("claim %s is CONFIRMED and has a lease", id))
			}
		default:
			pending[c.HostUUID]++
		}
		if r.Usages[c.HostUUID] == nil {
			wrong = append(wrong, fmt.Sprintf("host %s has claim %s and no usage", c.HostUUID, id))
		}
	}
	for id, u := range r.Usages {
		if u.Pending != pending[id] || u.Confirmed != confirmed[id] {
			wrong = append(wrong, fmt.Sprintf("host %s counts %d pending and %d confirmed, has %d and %d", id, u.Pending, u.Confirmed, pending[id], confirmed[id]))
		}
		if !slices.IsSortedFunc(u.Used, func(a, b shard.Used) int {
			return strings.Compare(a.ProviderUUID+"\x00"+a.ResourceClass, b.ProviderUUID+"\x00"+b.ResourceClass)
		}) {
			wrong = append(wrong, fmt.Sprintf("the usage of host %s is not in order: %v", id, u.Used))
		}
		for _, a := range u.Used {
			k := key{id, a.ProviderUUID, a.ResourceClass}
			if sum[k] != a.Amount || a.Amount == 0 {
				wrong = append(wrong, fmt.Sprintf("%v is %d in use, its claims take %d", k, a.Amount, sum[k]))
			}
			delete(sum, k)
		}
	}
	for k, n := range sum {
		wrong = append(wrong, fmt.Sprintf("%v: claims take %d, none is in use", k, n))
	}
	slices.Sort(wrong)
	return wrong
}

// Overfull returns the providers in use beyond capacity (I1), and the hardware taken twice.
func (r *Rows) Overfull() []string {
	var wrong []string
	assigned := map[string][]*shard.Claim{}
	for _, c := range r.Claims {
		if c.State.Live() && c.Guest != nil && c.Guest.Assigned != nil {
			assigned[c.HostUUID] = append(assigned[c.HostUUID], c)
		}
	}
	for id, h := range r.Hosts {
		wrong = append(wrong, hardwareConflicts(h, assigned[id])...)
		for _, p := range h.Providers {
			for _, inv := range p.Inventories {
				if used := r.Usages[id].Of(p.UUID, inv.ResourceClass); inv.Free(used) < 0 {
					wrong = append(wrong, fmt.Sprintf("I1: host %s, provider %s: %d %s of %d in use", id, p.UUID, used, inv.ResourceClass, inv.Capacity()-inv.Unaccounted))
				}
			}
		}
	}
	return wrong
}

// Diff returns where two sets differ.
func (r *Rows) Diff(other *Rows) []string {
	var d []string
	d = append(d, diff("host", r.Hosts, other.Hosts)...)
	d = append(d, diff("usage", r.Usages, other.Usages)...)
	d = append(d, diff("claim", r.Claims, other.Claims)...)
	d = append(d, diff("pin", r.Pins, other.Pins)...)
	d = append(d, diff("namespace", r.Namespaces, other.Namespaces)...)
	d = append(d, diff("admin state", r.AdminStates, other.AdminStates)...)
	d = append(d, diff("name", r.Names, other.Names)...)
	return append(d, diff("gate", r.Gates, other.Gates)...)
}

func diff[T any](what string, a, b map[string]*T) []string {
	var d []string
	for id, row := range a {
		if other, ok := b[id]; !ok {
			d = append(d, fmt.Sprintf("%s %s is only in the first: %+v", what, id, *row))
		} else if !equalRows(row, other) {
			d = append(d, fmt.Sprintf("%s %s differs: %+v, %+v", what, id, *row, *other))
		}
	}
	for id, row := range b {
		if _, ok := a[id]; !ok {
			d = append(d, fmt.Sprintf("%s %s is only in the second: %+v", what, id, *row))
		}
	}
	return d
}

// equalRows compares rows. An empty list equals an absent one.
func equalRows(a, b any) bool { return same(reflect.ValueOf(a), reflect.ValueOf(b)) }

func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		if a.Len() == 0 {
			return true
		}
		if a.Kind() == reflect.Map {
			return reflect.DeepEqual(a.Interface(), b.Interface())
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if eq := a.MethodByName("Equal"); eq.IsValid() && eq.Type().NumIn() == 1 && eq.Type().In(0) == a.Type() {
			return eq.Call([]reflect.Value{b})[0].Bool()
		}
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// EqualEntries reports whether two journal entries are equal.
func EqualEntries(a, b shard.Entry) bool { return equalRows(&a, &b) }

// Replay reads the journal from a position. It returns the rows that it finds and each lane's entries, and fails if a
// lane has a gap.
func Replay(ctx context.Context, j shard.Synchronizer, from shard.Cursor) (*Rows, map[shard.LaneID][]shard.Entry, error) {
	lanes := map[shard.LaneID][]shard.Entry{}
	rows, _, err := replay(ctx, j, from, func(e shard.Entry) { lanes[e.Lane] = append(lanes[e.Lane], e) })
	return rows, lanes, err
}

// replay is Replay without keeping the entries. It returns the last entry of each lane.
func replay(ctx context.Context, j shard.Synchronizer, from shard.Cursor, visit func(shard.Entry)) (*Rows, shard.Cursor, error) {
	rows, at, seen := NewRows(), from, shard.Cursor{}
	maps.Copy(seen, from)
	for {
		entries, next, err := j.Tail(ctx, at, 500)
		if err != nil {
			return nil, nil, err
		}
		if len(entries) == 0 {
			return rows.Live(), seen, nil
		}
		for _, e := range entries {
			if e.Seq != seen[e.Lane]+1 {
				return nil, nil, fmt.Errorf("lane %v has entry %d where %d belongs", e.Lane, e.Seq, seen[e.Lane]+1)
			}
			seen[e.Lane] = e.Seq
			visit(e)
			for _, c := range e.Changes {
				rows.Put(c, e.At)
			}
		}
		at = next
	}
}

func (s *suite) rows() *Rows {
	s.Helper()
	r, _, err := LoadRows(s.ctx, s)
	if err != nil {
		s.Fatalf("Load: %v", err)
	}
	return r
}

func (s *suite) checkRows() {
	s.Helper()
	for _, w := range s.rows().Check() {
		s.Error(w)
	}
}

// checkJournal checks that the whole journal gives the store's rows.
func (s *suite) checkJournal() {
	s.Helper()
	replayed, _, err := Replay(s.ctx, s, nil)
	if err != nil {
		s.Fatalf("replaying the journal: %v", err)
	}
	for _, d := range s.rows().Diff(replayed) {
		s.Errorf("rows and journal: %s", d)
	}
}
