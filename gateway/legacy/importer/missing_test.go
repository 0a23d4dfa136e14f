package importer

import (
	"context"
	"errors"
	"testing"
	"time"

	"cellgate/gateway/legacy/novadb"
)

// A snapshot is in the shard as a whole once each of its hosts is. It is not while a host that the cell never had waits
// for the next pass over instances. A host that the cell has may wait.
func TestWorker_HostThatWasNeverTakenWaits_IsNotWhole(t *testing.T) {
	n, cell := newNova(2), newCell()
	n.on(1, 1)
	reports := make(chan Report, 10)
	w := NewWorker(importerOf(t, n, func(c *Config) { c.FullEvery = 24 * time.Hour }), cell, func(r Report, err error) {
		if err != nil {
			t.Error(err)
		}
		reports <- r
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	step := func() Report {
		w.Offer(n.snapshot(), false)
		return <-reports
	}
	if r := step(); r.Held != 1 || r.Missing != 1 || r.Taken != 1 {
		t.Errorf("the first step: %+v", r)
	}
	if _, is := w.Age(); is {
		t.Error("a host is missing, and all is there")
	}
	if r := step(); r.Missing != 0 || r.Taken != 1 {
		t.Errorf("the second step: %+v", r)
	}
	if _, is := w.Age(); !is {
		t.Error("all is there, and it says that it is not")
	}
	n.put(1, func(r *novadb.Instance) { r.TaskState = "rebooting" })
	if r := step(); r.Missing != 0 {
		t.Errorf("an instance changed: %+v", r)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
