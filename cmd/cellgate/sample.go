package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/samples"
)

// sampleDeadline bounds one request of the sample.
const sampleDeadline = 30 * time.Second

// outcome is what came of one request of the sample.
type outcome struct {
	sample samples.Sample
	via    string
	answer *cellgatev1.SelectDestinationsResponse
	err    error
}

// got is samples.Placed, samples.Refused, or the kind of another error.
func (o outcome) got() string {
	switch {
	case o.err == nil:
		return samples.Placed
	case fault.KindOf(o.err) == fault.NoValidHost:
		return samples.Refused
	}
	return string(fault.KindOf(o.err))
}

// sendSample sends the bundled requests in their order, in turn through REST
// and gRPC, confirms what was claimed, and prints a table. Its error counts the
// requests whose outcome is neither the one their file expects nor one that the
// gateway's rules allow.
func sendSample(ctx context.Context, w io.Writer, api, web string, rules ownRules) error {
	all, err := samples.All()
	if err != nil {
		return err
	}
	conn, err := rpc.Dial(api)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // its calls are over
	rest := &restClient{base: "http://" + web, http: &http.Client{Transport: &http.Transport{}}}
	defer rest.http.CloseIdleConnections()
	grpcAPI := cellgatev1.NewSchedulerClient(conn)

	if _, err := io.WriteString(w, rules.fleetNote()); err != nil {
		return err
	}
	start := time.Now()
	outcomes := make([]outcome, 0, len(all))
	for i, s := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		o := outcome{sample: s, via: "gRPC"}
		within, cancel := context.WithTimeout(ctx, sampleDeadline)
		if i%2 == 0 {
			o.via = "REST"
			o.answer, o.err = rest.selectDestinations(within, s)
		} else {
			o.answer, o.err = grpcAPI.SelectDestinations(within, s.Request)
		}
		if o.err == nil {
			o.err = confirmAll(within, conn, o.answer)
		}
		cancel()
		outcomes = append(outcomes, o)
	}
	took := time.Since(start)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := showSample(w, outcomes, took, rules); err != nil {
		return err
	}
	return verdict(outcomes, rules)
}

// verdict is an error when an outcome is unexpected.
func verdict(outcomes []outcome, rules ownRules) error {
	n := 0
	for _, o := range outcomes {
		if rules.judge(o) == unexpected {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("%d of %d sample requests had another outcome than expected", n, len(outcomes))
	}
	return nil
}
