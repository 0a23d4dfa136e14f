package comparison

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// rate returns the instances placed per second.
func (t *tally) rate() float64 { return float64(t.placed) / t.took.Seconds() }

// wrongShare is the part of all choices that the hosts refused.
func (t *tally) wrongShare() float64 { return float64(t.wrong) / float64(max(t.attempted, 1)) }

// retries returns the number of repeated choices per 1,000 placed instances.
func (t *tally) retries() float64 {
	return 1000 * float64(t.wrong-t.gaveUp) / float64(max(t.placed, 1))
}

// quantile returns the time within which the fraction q of the placed instances was placed, from
// the request to the host's acceptance.
func (t *tally) quantile(q float64) time.Duration {
	if len(t.times) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(t.times))
	return all[int(q*float64(len(all)-1))]
}

func (t *tally) brief() string {
	return fmt.Sprintf("%s: %.0f placed/s, %d placed, %d wrong of %d, %d given up, %d refused, %d of these falsely, p50 %v, p99 %v",
		t.name, t.rate(), t.placed, t.wrong, t.attempted, t.gaveUp, t.refused, t.falsely,
		t.quantile(0.5).Round(10*time.Microsecond), t.quantile(0.99).Round(10*time.Microsecond))
}

// table returns Markdown. The others are compared with the first tally.
func table(hosts int, l load, tallies []*tally) string {
	var b strings.Builder
	what := "the oldest instance goes for each new one"
	if !l.churn {
		what = "nothing goes, until 97 % are in use"
	}
	fmt.Fprintf(&b, "%d hosts, %d callers, %d changes of state a second that no scheduler made, %.0f %% of all VCPUs in use at the start; %s. At most %v each. Load of the machine at the end: %s\n\n",
		hosts, l.callers, l.changes, 100*l.full, what, l.duration, loadAverage())
	b.WriteString("| | placed a second | of legacy | wrong choices | retries for 1,000 placed | given up after three | refused, though a host had room | p50 | p99 |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, t := range tallies {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f %% | %.2f %% | %.1f | %d | %d | %.1f ms | %.1f ms |\n", t.name, t.rate(), 100*t.rate()/tallies[0].rate(),
			100*t.wrongShare(), t.retries(), t.gaveUp, t.falsely,
			float64(t.quantile(0.5).Microseconds())/1000, float64(t.quantile(0.99).Microseconds())/1000)
	}
	return b.String()
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
