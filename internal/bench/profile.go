package bench

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// profile is a CPU profile as runtime/pprof writes it: gzipped profile.proto.
// Only what stages need is read.
type profile struct {
	samples []sample
	// over is the time that was profiled.
	over time.Duration
}

// sample is CPU time with its stack: function names, the innermost first.
type sample struct {
	stack []string
	cpu   time.Duration
}

var errProfile = errors.New("not a CPU profile")

// maxProfile bounds an unpacked profile.
const maxProfile = 256 << 20

// readProfile reads a CPU profile.
func readProfile(gzipped []byte) (*profile, error) {
	z, err := gzip.NewReader(bytes.NewReader(gzipped))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProfile, err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxProfile))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProfile, err)
	}
	r := rawProfile{functions: map[uint64]uint64{}, locations: map[uint64][]uint64{}}
	if err := eachField(raw, r.field); err != nil {
		return nil, err
	}
	return r.resolve()
}

// rawProfile is the message with its references unresolved.
type rawProfile struct {
	strings []string
	// types are the indices of the names of the samples' values.
	types []uint64
	// functions: id to the index of the name; locations: id to function ids, the
	// innermost first (inlined functions share a location).
	functions map[uint64]uint64
	locations map[uint64][]uint64
	samples   []rawSample
	over      time.Duration
}

type rawSample struct{ locations, values []uint64 }

func (r *rawProfile) field(f field) error {
	switch f.number {
	case 1:
		var name uint64
		err := eachField(f.bytes, func(f field) error { return f.set(1, &name) })
		r.types = append(r.types, name)
		return err
	case 2:
		var s rawSample
		err := eachField(f.bytes, func(f field) error {
			return errors.Join(f.appendTo(1, &s.locations), f.appendTo(2, &s.values))
		})
		r.samples = append(r.samples, s)
		return err
	case 4:
		var id uint64
		var functions []uint64
		err := eachField(f.bytes, func(f field) error {
			if f.number == 4 {
				var function uint64
				err := eachField(f.bytes, func(f field) error { return f.set(1, &function) })
				functions = append(functions, function)
				return err
			}
			return f.set(1, &id)
		})
		r.locations[id] = functions
		return err
	case 5:
		var id, name uint64
		err := eachField(f.bytes, func(f field) error { return errors.Join(f.set(1, &id), f.set(2, &name)) })
		r.functions[id] = name
		return err
	case 6:
		r.strings = append(r.strings, string(f.bytes))
	case 10:
		r.over = time.Duration(f.number64)
	}
	return nil
}

func (r *rawProfile) resolve() (*profile, error) {
	text := func(i uint64) string {
		if i < uint64(len(r.strings)) {
			return r.strings[i]
		}
		return ""
	}
	cpu := -1
	for i, t := range r.types {
		if text(t) == "cpu" {
			cpu = i
		}
	}
	if cpu < 0 {
		return nil, fmt.Errorf("%w: it has no value named cpu", errProfile)
	}
	p := &profile{over: r.over}
	for _, s := range r.samples {
		if cpu >= len(s.values) {
			return nil, fmt.Errorf("%w: a sample has %d values", errProfile, len(s.values))
		}
		out := sample{cpu: time.Duration(s.values[cpu])}
		for _, l := range s.locations {
			for _, f := range r.locations[l] {
				out.stack = append(out.stack, text(r.functions[f]))
			}
		}
		p.samples = append(p.samples, out)
	}
	return p, nil
}

// field is one field of a message: number64 of a varint, bytes of what has a
// length.
type field struct {
	number   protowire.Number
	kind     protowire.Type
	number64 uint64
	bytes    []byte
}

// set takes a number field.
func (f field) set(number protowire.Number, into *uint64) error {
	if f.number == number {
		*into = f.number64
	}
	return nil
}

// appendTo takes a repeated number field, packed or not.
func (f field) appendTo(number protowire.Number, into *[]uint64) error {
	if f.number != number {
		return nil
	}
	if f.kind == protowire.VarintType {
		*into = append(*into, f.number64)
		return nil
	}
	for b := f.bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errProfile, protowire.ParseError(n))
		}
		*into, b = append(*into, v), b[n:]
	}
	return nil
}

// eachField visits the fields of a message.
func eachField(b []byte, visit func(field) error) error {
	for len(b) > 0 {
		f := field{}
		var n int
		if f.number, f.kind, n = protowire.ConsumeTag(b); n < 0 {
			return fmt.Errorf("%w: %w", errProfile, protowire.ParseError(n))
		}
		b = b[n:]
		switch f.kind {
		case protowire.VarintType:
			f.number64, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(f.number, f.kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errProfile, protowire.ParseError(n))
		}
		b = b[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}
