package cell

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/telemetry"
	"cellgate/schedule"
)

// Claims of 5 and 3 VCPU on a host of 8, and of 3 on another one: 1.5 hosts of three are full.
func TestPacking_ClaimsOfTwoShapes_CountsRoomAndDensity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		for n := range 3 {
			r.register(plainState(n, 8))
		}
		r.must(newClaim("a", 1, 0, 5), newClaim("b", 2, 0, 3), newClaim("c", 3, 1, 3))
		read := func() telemetry.PackingReading {
			reading, ok := r.cell.reading()
			if !ok {
				t.Fatal("nothing to read")
			}
			return reading.Packing
		}
		got := read()
		want := []telemetry.ShapeReading{{Shape: "3 VCPU", Fits: 3, Pooled: 4}, {Shape: "5 VCPU", Fits: 2, Pooled: 2}}
		if got.Empty != 1 || got.Density["VCPU"] != 11.0/16 || got.Density["DISK_GB"] != 0 || !slices.Equal(got.Shapes, want) {
			t.Errorf("%+v", got)
		}
		r.must(newClaim("d", 4, 2, 7))
		if again := read(); again.Empty != 1 {
			t.Errorf("counted again before its time: %+v", again)
		}
		time.Sleep(packingAge)
		got = read()
		want = []telemetry.ShapeReading{{Shape: "3 VCPU", Fits: 1, Pooled: 2}, {Shape: "5 VCPU", Fits: 1, Pooled: 1}, {Shape: "7 VCPU"}}
		if got.Empty != 0 || got.Density["VCPU"] != 18.0/24 || !slices.Equal(got.Shapes, want) {
			t.Errorf("%+v", got)
		}
	})
}

func TestFrequentShapes_ManyShapes_TheMostFrequent(t *testing.T) {
	counts := map[schedule.Shape]int{}
	for n := range int64(30) {
		counts[schedule.Shape{1 + n}] = int(100 - n)
	}
	if first := frequentShapes(counts); len(first) != packedShapes || first[0] != (schedule.Shape{1}) || first[9] != (schedule.Shape{10}) {
		t.Fatalf("%v", first)
	}
}
