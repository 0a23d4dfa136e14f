package storebench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inMemory returns the stores of so many schedulers over one shard.
func inMemory(t *testing.T, schedulers int) Stores {
	t.Helper()
	s, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return Stores{Of: slices.Repeat([]shard.Store{s}, schedulers), Conflicts: func() int64 { return 0 }}
}

// Runs each way to claim that an embedded store has. One of three hosts is full, so that claims are
// refused and rounds end.
func TestI1_Run_EachSetting_FindsNothingWrong(t *testing.T) {
	for _, claims := range []string{Locks, LocksSingle, Computes} {
		for _, order := range Orders {
			for _, partition := range Partitions {
				s := Setting{Callers: 8, Schedulers: 2, Hosts: 3, Full: 1, Order: order, Partition: partition, Claims: claims}
				r, err := Run(t.Context(), s, inMemory(t, s.Schedulers), 2*time.Millisecond)
				if err != nil {
					t.Fatalf("%+v: %v", s, err)
				}
				if r.Wrong != 0 || r.Claims == 0 || r.PerSecond <= 0 || r.P99 < r.P50 || r.Setting != s {
					t.Errorf("%+v came to %+v", s, r)
				}
				if claims != Locks && r.PerTransaction > 1 {
					t.Errorf("%s makes %.1f claims a transaction", claims, r.PerTransaction)
				}
			}
		}
	}
}

func TestRun_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	on := inMemory(t, 2)
	on.Of[1] = cancelled{on.Of[1], cancel}
	_, err := Run(ctx, Setting{Callers: 4, Schedulers: 2, Hosts: 2, Order: Spread, Partition: Unshared, Claims: Locks}, on, time.Hour)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// cancelled ends a context when the journal is read.
type cancelled struct {
	shard.Store
	cancel func()
}

func (c cancelled) Tail(ctx context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	c.cancel()
	return c.Store.Tail(ctx, after, limit)
}

func TestRun_OfAClosedStore_GivesItsError(t *testing.T) {
	on := inMemory(t, 1)
	if err := on.Of[0].Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Run(t.Context(), Setting{Callers: 1, Schedulers: 1, Hosts: 1, Order: Spread, Partition: Unshared, Claims: Locks}, on, time.Hour); err == nil {
		t.Errorf("came to %+v", r)
	}
}

// rows is a store's changes.
type rows struct {
	shard.Synchronizer
	list []shard.Change
}

func (r rows) Load(_ context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	for _, c := range r.list {
		if err := visit(c); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func TestCheck_FindsEachFault(t *testing.T) {
	host := newHost(1).PutHost.Host
	usage := func(vcpus int64, claims int32) shard.Change {
		u := &shard.Usage{HostUUID: host.UUID, Pending: claims}
		if vcpus > 0 {
			u.Used = []shard.Used{{ProviderUUID: host.UUID, ResourceClass: "VCPU", Amount: vcpus}}
		}
		return shard.Change{Usage: u}
	}
	claim := func(id, consumer string, vcpus int64) shard.Change {
		return shard.Change{Claim: &shard.Claim{ClaimID: id, ConsumerUUID: consumer, HostUUID: host.UUID, Allocations: []shard.Used{{ProviderUUID: host.UUID, ResourceClass: "VCPU", Amount: vcpus}}}}
	}
	for want, list := range map[string][]shard.Change{
		"":                                {usage(4, 2), claim("a", "x", 2), claim("b", "y", 2)},
		"2 claims were made, and 1 are":   {usage(2, 1), claim("a", "x", 2)},
		"consumer x has claims a and b":   {usage(4, 2), claim("a", "x", 2), claim("b", "x", 2)},
		"counts 1 claims and has 2":       {usage(4, 1), claim("a", "x", 2), claim("b", "y", 2)},
		"6 VCPU in use, and its claims":   {usage(6, 2), claim("a", "x", 2), claim("b", "y", 2)},
		"102 VCPU in use, of 100":         {usage(102, 2), claim("a", "x", 100), claim("b", "y", 2)},
		"take 4 VCPU, and none is in use": {usage(0, 2), claim("a", "x", 2), claim("b", "y", 2)},
	} {
		found, err := check(t.Context(), rows{list: append([]shard.Change{{Host: &host}}, list...)}, 2)
		text := strings.Join(found, "; ")
		if err != nil || want == "" && text != "" || len(found) > 1 || !strings.Contains(text, want) {
			t.Errorf("found %q, %v; want %q", text, err, want)
		}
	}
}

func TestChoose_EachOrderAndPartition_PicksItsHosts(t *testing.T) {
	for _, c := range []struct {
		order, partition string
		free             []int
		want             []int // one of these
	}{
		{PackFirst, Unshared, []int{0, 3, 9, 9}, []int{1}},
		{PackAmong, Unshared, []int{0, 3, 9, 9}, []int{1, 2}},
		{Spread, Unshared, []int{0, 3, 9, 5}, []int{2}},
		{Random, Unshared, []int{0, 3, 0, 5}, []int{1, 3}},
		{PackFirst, Modulo, []int{9, 3, 9, 9}, []int{1}},
		{PackFirst, Modulo, []int{0, 0, 9, 0}, []int{2}},
	} {
		s := &scheduler{number: 1, of: 2, order: c.order, partition: c.partition, width: 2}
		for range 20 {
			s.begin(&round{hosts: len(c.free)})
			copy(s.free, c.free)
			if h, ok := s.choose(nil); !ok || !slices.Contains(c.want, h) {
				t.Errorf("%s, %s: chose host %d of %v", c.order, c.partition, h, c.free)
			}
		}
		if h, ok := s.choose([]int{0, 1, 2, 3}); ok {
			t.Errorf("%s, %s: chose host %d, which was tried", c.order, c.partition, h)
		}
	}
}
