package cellclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Trial is a copy of a cell's table at one of its replicas. It is for one goroutine at a time. Its calls do not count
// for the replica's breaker.
type Trial struct {
	Cell    *Cell
	Started *cellv1.TrialStarted
	stream  grpc.BidiStreamingClient[cellv1.TryPlacementsRequest, cellv1.TryPlacementsResponse]
	end     context.CancelFunc
}

// StartTrial copies the table at the first replica that may be asked and answers. The trial ends with End or ctx.
func (c *Cell) StartTrial(ctx context.Context, start *cellv1.StartTrial) (*Trial, error) {
	var failure error
	for _, r := range c.InOrder("") {
		err := r.refuses()
		if err == nil {
			var t *Trial
			if t, err = r.startTrial(ctx, start); err == nil {
				return t, nil
			}
		}
		failure = err
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, failure
}

func (r *Replica) startTrial(ctx context.Context, start *cellv1.StartTrial) (*Trial, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := r.client.TryPlacements(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	t := &Trial{Cell: r.cell, stream: stream, end: cancel}
	got, err := t.step(ctx, r.cell.ClaimBudget, &cellv1.TryPlacementsRequest{Step: &cellv1.TryPlacementsRequest_Start{Start: start}})
	if err != nil {
		cancel()
		return nil, err
	}
	t.Started = got.GetStarted()
	return t, nil
}

// End discards the copy.
func (t *Trial) End() { t.end() }

// Fill counts how many instances of a placement fit, until ctx's deadline if it has one.
func (t *Trial) Fill(ctx context.Context, fill *cellv1.FillTrial) (*cellv1.TrialFilled, error) {
	budget := t.Cell.ClaimBudget
	if until, ok := ctx.Deadline(); ok {
		budget = time.Until(until)
	}
	got, err := t.step(ctx, budget, &cellv1.TryPlacementsRequest{Step: &cellv1.TryPlacementsRequest_Fill{Fill: fill}})
	return got.GetFilled(), err
}

// Ask places instances on the copy, then asks it for a proposal.
func (t *Trial) Ask(ctx context.Context, ask *cellv1.AskTrial) (*cellv1.Proposal, error) {
	got, err := t.step(ctx, t.Cell.ClaimBudget, &cellv1.TryPlacementsRequest{Step: &cellv1.TryPlacementsRequest_Ask{Ask: ask}})
	return got.GetProposal(), err
}

// step sends a step and waits for its answer, at most for budget. After an error the trial is over.
func (t *Trial) step(ctx context.Context, budget time.Duration, in *cellv1.TryPlacementsRequest) (*cellv1.TryPlacementsResponse, error) {
	var late atomic.Bool
	timer := time.AfterFunc(budget, func() { late.Store(true); t.end() })
	defer timer.Stop()
	err := t.stream.Send(in)
	var out *cellv1.TryPlacementsResponse
	if err == nil || errors.Is(err, io.EOF) {
		out, err = t.stream.Recv()
	}
	switch {
	case err == nil:
		return out, nil
	case late.Load():
		return nil, tooSlow(err, t.Cell, budget)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return nil, f
	}
	return nil, fault.Wrap(fault.CellUnavailable, fmt.Errorf("a trial: %w", err), "cell %s ended the trial of placements", t.Cell.Name())
}
