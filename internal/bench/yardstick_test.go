package bench

import "testing"

func TestYardstickMeasuresEachPart(t *testing.T) {
	y, err := MeasureYardstick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if y.Multiply <= 0 || y.Read <= 0 || y.Loopback <= 0 {
		t.Errorf("%+v has a part that took no time", y)
	}
	t.Log(y)
}

func TestTheCycleGoesThroughAllCells(t *testing.T) {
	const n = 1000
	lines := oneCycle(n)
	at, steps := lines[0].next, 1
	for ; at != 0 && steps <= n; steps++ {
		at = lines[at].next
	}
	if steps != n {
		t.Errorf("back at the first after %d steps, want %d", steps, n)
	}
}
