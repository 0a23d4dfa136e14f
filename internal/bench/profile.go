package bench

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// sample is CPU time with its stack: function names, the innermost first.
type sample struct {
	stack []string
	cpu   time.Duration
}

var errProfile = errors.New("not a CPU profile")

// maxProfile bounds an unpacked profile.
const maxProfile = 256 << 20

// readProfile reads a CPU profile as runtime/pprof writes it, and for how long it was
// taken. profile.Parse would unpack whatever is there.
func readProfile(gzipped []byte) (samples []sample, over time.Duration, err error) {
	z, err := gzip.NewReader(bytes.NewReader(gzipped))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errProfile, err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxProfile))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errProfile, err)
	}
	p, err := profile.ParseUncompressed(raw)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errProfile, err)
	}
	cpu := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "cpu" })
	if cpu < 0 {
		return nil, 0, fmt.Errorf("%w: it has no value named cpu", errProfile)
	}
	for _, s := range p.Sample {
		out := sample{cpu: time.Duration(s.Value[cpu])}
		for _, l := range s.Location {
			for _, line := range l.Line { // Inlined functions share a location.
				if line.Function != nil {
					out.stack = append(out.stack, line.Function.Name)
				}
			}
		}
		samples = append(samples, out)
	}
	return samples, time.Duration(p.DurationNanos), nil
}
