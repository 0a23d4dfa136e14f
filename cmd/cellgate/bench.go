package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"cellgate/internal/bench"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// benchFlags say what to measure.
type benchFlags struct {
	self             bool
	cells, hosts     int
	data             string
	callers          []int
	duration, warmup time.Duration
	shape, release   *string
	conns            int
	seed             uint64
}

func newBench(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure selections with durable claims a second",
		Long: `Select through gRPC with many callers, each waiting for its answer before it
selects again, and print how many selections a second were answered, each with
a durable claim, and how long they took. What is claimed is released.

With --self it starts a system of its own, as "cellgate dev" does, in a child
process, and ends it afterwards.`,
		Example: `  cellgate bench --self --cells 10 --hosts 1000 --callers 1,8,64 --duration 10s
  cellgate bench --addr 127.0.0.1:9090 --callers 64 --duration 10s -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	var b benchFlags
	b.add(cmd)
	c := newClient(cmd, t)
	cmd.MarkFlagsMutuallyExclusive("self", "addr")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.check(cmd); err != nil {
			return usage(cmd, err)
		}
		report, err := b.run(cmd, c, t)
		if err != nil {
			return err
		}
		if err := report.print(t.out, *c.form); err != nil {
			return err
		}
		return report.unexpected()
	}
	// The commands below this one do not take the flags of a gateway's client.
	own := cmd.Flags()
	own.AddFlagSet(cmd.PersistentFlags())
	cmd.ResetFlags()
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(own)
	cmd.AddCommand(newBenchStore(t))
	return cmd
}

func (b *benchFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&b.self, "self", false, "start a system for it, and end it afterwards")
	f.IntVar(&b.cells, "cells", 3, "with --self: cells to run")
	f.IntVar(&b.hosts, "hosts", 1000, "with --self: hosts to simulate in each cell")
	f.StringVar(&b.data, "data", "", "with --self: an empty or new directory for the shards (default: a temporary one); else: the directory whose disk is measured")
	f.IntSliceVar(&b.callers, "callers", []int{64}, "callers at once; several numbers are measured one after another")
	f.DurationVar(&b.duration, "duration", 10*time.Second, "how long to measure each number of callers")
	f.DurationVar(&b.warmup, "warmup", 2*time.Second, "how long to load before that")
	b.shape = choiceFlag(cmd, "shape", string(bench.Mix), []string{string(bench.Mix), string(bench.Same)}, "requests: mix, or same for one flavor")
	b.release = choiceFlag(cmd, "release", string(bench.ReleaseEach), []string{string(bench.ReleaseEach), string(bench.ReleaseEnd)}, "give claims back: each after its answer, or all at the end")
	f.IntVar(&b.conns, "conns", 2, "connections the callers share")
	f.Uint64Var(&b.seed, "seed", 1, "decides what the requests are like")
}

func (b *benchFlags) check(cmd *cobra.Command) error {
	for name, n := range map[string]int{"cells": b.cells, "hosts": b.hosts, "conns": b.conns, "callers": slices.Min(append(b.callers, 1<<20))} {
		if n < 1 {
			return fmt.Errorf("--%s: %d is below 1", name, n)
		}
	}
	for _, name := range []string{"cells", "hosts"} {
		if cmd.Flags().Changed(name) && !b.self {
			return fmt.Errorf("--%s is of use with --self only", name)
		}
	}
	switch {
	case len(b.callers) == 0:
		return errors.New("--callers: name at least one number")
	case b.duration <= 0 || b.warmup < 0:
		return errors.New("--duration must be above 0 and --warmup not below")
	}
	return nil
}

// run measures each number of callers.
func (b *benchFlags) run(cmd *cobra.Command, c *client, t terminal) (report *benchReport, err error) {
	ctx := cmd.Context()
	target := benchTarget{addr: c.addr, data: b.data}
	if b.self {
		var s *ownSystem
		if s, err = startOwn(ctx, b, t); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		target = s.target
		c.addr = target.addr
	}
	var conns []*grpc.ClientConn
	defer func() { closeAll(conns) }()
	for range b.conns {
		conn, err := c.connect(cmd)
		if err != nil {
			return nil, err
		}
		conns = append(conns, conn)
	}
	report, err = describe(ctx, b, target, conns[0])
	if err != nil {
		return nil, c.located(ctx, err)
	}
	for _, n := range b.callers {
		_, _ = fmt.Fprintf(t.err, "measuring %d callers for %v\n", n, b.duration)
		step, err := b.step(ctx, c, n, target, conns)
		if err != nil {
			return nil, err
		}
		report.Steps = append(report.Steps, *step)
	}
	return report, nil
}

// step measures one number of callers.
func (b *benchFlags) step(ctx context.Context, c *client, callers int, target benchTarget, conns []*grpc.ClientConn) (*benchStep, error) {
	var links []grpc.ClientConnInterface
	for _, c := range conns {
		links = append(links, c)
	}
	var cpu, after cpuTimes
	result := bench.Run(ctx, links, bench.Load{
		Callers: callers, Warmup: b.warmup, Duration: b.duration, CallWithin: c.timeout,
		Shape: bench.Shape(*b.shape), Release: bench.Release(*b.release), Seed: b.seed,
		Begin: func() { cpu = cpuOf(target.pid) },
		End:   func() { after = cpuOf(target.pid) },
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return &benchStep{Result: result, CPU: after.since(cpu)}, nil
}

func closeAll(conns []*grpc.ClientConn) {
	for _, c := range conns {
		_ = c.Close() // its calls are over
	}
}

// describe asks the gateway which cells it has, and measures the machine.
func describe(ctx context.Context, b *benchFlags, target benchTarget, conn *grpc.ClientConn) (*benchReport, error) {
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cells, err := cellgatev1.NewCellsClient(conn).ListCells(within, &cellgatev1.ListCellsRequest{})
	if err != nil {
		return nil, err
	}
	r := &benchReport{Target: target.addr, Conns: b.conns, Release: *b.release, Steps: []benchStep{}}
	if b.self {
		r.Target += " (started for it)"
	}
	r.Memory = memoryOf(target.pid)
	if r.benchMachine, err = measureMachine(ctx, target.data); err != nil {
		return nil, err
	}
	for _, c := range cells.GetCells() {
		if !c.GetAvailable() {
			return nil, fault.New(fault.CellUnavailable, "cell %s does not answer: %s", c.GetCell(), c.GetReason())
		}
		r.Cells++
		r.Hosts += int(c.GetHosts())
	}
	return r, nil
}

// sharedWriter is a writer for several goroutines.
type sharedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
