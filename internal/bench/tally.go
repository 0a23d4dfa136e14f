package bench

import (
	"maps"
	"slices"
	"time"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Result is the result of a load over the measured time.
type Result struct {
	Callers int     `json:"callers"`
	Shape   Shape   `json:"shape"`
	Seconds float64 `json:"seconds"`
	// Requests is the number of requests answered with every instance placed. Selections is the number
	// of their instances, each with a durable claim.
	Requests   int `json:"requests"`
	Selections int `json:"selections"`
	// Refused is the number of requests that no host can hold, and that were refused as such.
	Refused             int     `json:"refused"`
	RequestsPerSecond   float64 `json:"requests_per_second"`
	SelectionsPerSecond float64 `json:"selections_per_second"`
	// Latency is of the answered and refused requests.
	Latency Quantiles `json:"latency"`
	// Release are the releases of claims; nil if there were none.
	Release *Calls `json:"release,omitempty"`
	// Errors counts, by kind, every answer that is not the expected one.
	Errors map[string]int `json:"errors"`
	// Cells counts the selections by cell.
	Cells map[string]int `json:"cells"`
	// Partial counts the partial answers, Inexact those of all cells that were not exact.
	Partial int `json:"partial"`
	Inexact int `json:"inexact"`
}

// Failed counts the unexpected answers.
func (r *Result) Failed() int {
	n := 0
	for _, k := range r.Errors {
		n += k
	}
	return n
}

// Calls are calls of one kind.
type Calls struct {
	Count     int            `json:"count"`
	PerSecond float64        `json:"per_second"`
	Latency   Quantiles      `json:"latency"`
	Errors    map[string]int `json:"errors"`
}

// Quantiles of a latency, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// QuantilesOf sorts the durations. The p-quantile is the smallest duration that is not exceeded by at
// least p of all.
func QuantilesOf(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	at := func(percent int) float64 {
		return milliseconds(d[max((len(d)*percent+99)/100, 1)-1])
	}
	return Quantiles{P50: at(50), P95: at(95), P99: at(99), Max: milliseconds(d[len(d)-1])}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// calls counts calls and how long they took.
type calls struct {
	durations []time.Duration
	errors    map[string]int
}

func (c *calls) took(d time.Duration, err error) {
	if err != nil {
		if c.errors == nil {
			c.errors = map[string]int{}
		}
		c.errors[string(fault.KindOf(err))]++
		return
	}
	c.durations = append(c.durations, d)
}

func (c *calls) add(o *calls) {
	c.durations = append(c.durations, o.durations...)
	for k, n := range o.errors {
		if c.errors == nil {
			c.errors = map[string]int{}
		}
		c.errors[k] += n
	}
}

func (c *calls) result(over time.Duration) *Calls {
	return &Calls{
		Count: len(c.durations), PerSecond: rate(len(c.durations), over),
		Latency: QuantilesOf(c.durations), Errors: counted(c.errors),
	}
}

// tally is the counts of one caller, or of all.
type tally struct {
	selects                      calls
	releases                     calls
	requests, selected, refused  int
	partial, inexact, unexpected int
	cells                        map[string]int
}

func newTally() *tally { return &tally{cells: map[string]int{}} }

// selection records an answer. For an impossible request only a refusal with NO_VALID_HOST is expected;
// for any other request only a success.
func (t *tally) selection(resp *cellgatev1.SelectDestinationsResponse, err error, impossible bool, d time.Duration) {
	switch {
	case err != nil && impossible && fault.KindOf(err) == fault.NoValidHost:
		t.refused++
		t.selects.took(d, nil)
		return
	case err != nil:
		t.selects.took(d, err)
		return
	}
	t.selects.took(d, nil)
	if impossible {
		t.unexpected++
	}
	t.requests++
	for _, x := range resp.GetDestinations() {
		t.selected++
		t.cells[x.GetSelected().GetCell()]++
	}
	switch {
	case resp.GetPartial():
		t.partial++
	case !resp.GetExact():
		t.inexact++
	}
}

func (t *tally) add(o *tally) {
	t.selects.add(&o.selects)
	t.releases.add(&o.releases)
	t.requests += o.requests
	t.selected += o.selected
	t.refused += o.refused
	t.partial += o.partial
	t.inexact += o.inexact
	t.unexpected += o.unexpected
	for c, n := range o.cells {
		t.cells[c] += n
	}
}

func (t *tally) result(l Load, over time.Duration) Result {
	r := Result{
		Callers: l.Callers, Shape: l.Shape, Seconds: over.Seconds(),
		Requests: t.requests, Selections: t.selected, Refused: t.refused,
		RequestsPerSecond: rate(t.requests, over), SelectionsPerSecond: rate(t.selected, over),
		Latency: QuantilesOf(t.selects.durations), Errors: counted(t.selects.errors), Cells: t.cells,
		Partial: t.partial, Inexact: t.inexact,
	}
	if t.unexpected > 0 {
		r.Errors["PLACED_THE_IMPOSSIBLE"] = t.unexpected
	}
	if l.Release == ReleaseEach {
		r.Release = t.releases.result(over)
	}
	return r
}

// counted returns a copy of a map that is never nil.
func counted(m map[string]int) map[string]int {
	if m == nil {
		return map[string]int{}
	}
	return maps.Clone(m)
}

func rate(n int, over time.Duration) float64 {
	if over <= 0 {
		return 0
	}
	return float64(n) / over.Seconds()
}
