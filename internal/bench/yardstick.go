package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"time"
)

const (
	yardRuns      = 5
	yardSteps     = 5_000_000
	yardCells     = 64 << 20 / lineBytes
	yardReads     = 200_000
	lineBytes     = 64
	yardRoundTrip = 2_000
)

// Yardstick is the present speed of the machine itself: a virtual machine's speed changes from hour to
// hour, so it makes measurements of different days comparable. Each value is the median of five runs on
// one core.
type Yardstick struct {
	// Multiply is the time of one of a chain of 64-bit multiplications, in ns. It shows the clock rate,
	// and how much of it others take.
	Multiply float64 `json:"multiply_ns"`
	// Read is the time of one of a chain of reads at random places of 64 MiB, in ns.
	Read float64 `json:"random_read_ns"`
	// Loopback is the time of a byte over a TCP connection and another one back, in ns. It shows system
	// calls and the scheduler.
	Loopback float64 `json:"loopback_ns"`
}

// String shows the values in one line.
func (y Yardstick) String() string {
	return fmt.Sprintf("a multiplication takes %.2f ns, a random read of 64 MiB %.0f ns, a byte over loopback and back %.0f µs", y.Multiply, y.Read, y.Loopback/1e3)
}

// MeasureYardstick takes about half a second.
func MeasureYardstick(ctx context.Context) (Yardstick, error) {
	lines := oneCycle(yardCells)
	trip, err := loopback(ctx)
	if err != nil {
		return Yardstick{}, err
	}
	return Yardstick{
		Multiply: medianOf(func() float64 { return per(yardSteps, multiply) }),
		Read:     medianOf(func() float64 { return per(yardReads, func(n int) { chase(lines, n) }) }),
		Loopback: trip,
	}, nil
}

func multiply(n int) {
	x := uint64(n) | 1
	for range n {
		x *= 0x9e3779b97f4a7c15
	}
	runtime.KeepAlive(x)
}

// line is a cache line with the index of the next one.
type line struct {
	next uint32
	_    [lineBytes - 4]byte
}

// chase follows next n times; each step depends on the one before.
func chase(lines []line, n int) {
	var at uint32
	for range n {
		at = lines[at].next
	}
	runtime.KeepAlive(at)
}

// oneCycle returns n lines that form one cycle in random order (Sattolo's algorithm).
func oneCycle(n int) []line {
	r := rand.New(rand.NewPCG(1, 2))
	lines := make([]line, n)
	for i := range lines {
		lines[i].next = uint32(i)
	}
	for i := n - 1; i > 0; i-- {
		k := r.IntN(i)
		lines[i].next, lines[k].next = lines[k].next, lines[i].next
	}
	return lines
}

func per(n int, do func(int)) float64 {
	began := time.Now()
	do(n)
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}

func medianOf(run func() float64) float64 {
	took := make([]float64, 0, yardRuns)
	for range yardRuns {
		took = append(took, run())
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// loopback measures a round trip in ns.
func loopback(ctx context.Context) (ns float64, err error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ln.Close()) }()
	var d net.Dialer
	near, err := d.DialContext(ctx, "tcp", ln.Addr().String())
	if err != nil {
		return 0, err
	}
	far, err := ln.Accept()
	if err != nil {
		return 0, errors.Join(err, near.Close())
	}
	echoed := make(chan error, 1)
	go func() {
		_, err := io.Copy(far, far)
		echoed <- errors.Join(err, far.Close())
	}()
	var failed error
	ns = medianOf(func() float64 {
		return per(yardRoundTrip, func(n int) {
			b := make([]byte, 1)
			for range n {
				if _, err := near.Write(b); err != nil {
					failed = err
					return
				}
				if _, err := io.ReadFull(near, b); err != nil {
					failed = err
					return
				}
			}
		})
	})
	return ns, errors.Join(failed, near.Close(), <-echoed)
}

// SyncMedian measures how long the disk under dir takes to make 4 KiB durable: the median of n appends
// to a temporary file, each followed by fsync. No claim can be faster.
func SyncMedian(dir string, n int) (median time.Duration, err error) {
	f, err := os.CreateTemp(dir, "sync-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 4096)
	took := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
