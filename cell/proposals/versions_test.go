package proposals

import (
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

func TestVersionsArePinnedForATimeAndABound(t *testing.T) {
	now := time.Unix(1000, 0)
	v := NewVersions(2*time.Second, 3, func() time.Time { return now })
	v.SetIncarnation("r.1-7")
	first, name := v.Newest()
	next := func() { v.Publish(v.current.Load().Edit().Table()) }
	next()
	if _, other := v.Newest(); other == name {
		t.Fatalf("two versions have the name %s", name)
	}

	now = now.Add(1500 * time.Millisecond)
	if got, err := v.At(name); err != nil || got.Table != first {
		t.Fatalf("within its time the version gave %p, %v; want %p", got, err, first)
	}
	now = now.Add(1999 * time.Millisecond)
	if _, err := v.At(name); err != nil {
		t.Fatalf("asking for it did not keep it anew: %v", err)
	}
	now = now.Add(2 * time.Second)
	if _, err := v.At(name); fault.KindOf(err) != fault.Gone {
		t.Fatalf("after its time the version gave %v", err)
	}
	v.Sweep()
	if len(v.kept) != 0 {
		t.Errorf("%d versions are still held", len(v.kept))
	}

	_, oldest := v.Newest()
	for range 3 {
		next()
		v.Newest()
	}
	v.Sweep()
	if _, err := v.At(oldest); fault.KindOf(err) != fault.Gone {
		t.Errorf("beyond the bound the oldest gave %v", err)
	}
	if len(v.kept) != 3 {
		t.Errorf("%d versions are held, want 3", len(v.kept))
	}
}

func TestVersions_OfAnotherIncarnation_AreGone(t *testing.T) {
	v := NewVersions(time.Hour, 8, time.Now)
	v.SetIncarnation("r-2")
	v.Publish(schedule.NewTable())
	_, name := v.Newest()
	if name != "r-2.1" {
		t.Errorf("name is %q", name)
	}
	for _, other := range []string{"r-1.1", "q-2.1", "r-2.9", "1", "r-2.x"} {
		if _, err := v.At(other); fault.KindOf(err) != fault.Gone {
			t.Errorf("%s gave %v", other, err)
		}
	}
}
