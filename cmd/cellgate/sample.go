package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/samples"
)

const (
	// sampleDeadline bounds one request of the sample.
	sampleDeadline = 30 * time.Second
	// maxAnswer bounds how much of a REST answer the sample reads.
	maxAnswer = 64 << 20
	// shownInstances is how many instances of a request the sample's table shows.
	shownInstances = 4
)

// outcome is the result of one request of the sample.
type outcome struct {
	sample samples.Sample
	via    string
	answer *cellgatev1.SelectDestinationsResponse
	err    error
}

// got gives samples.Placed, samples.Refused, or the kind of another error.
func (o outcome) got() string {
	switch {
	case o.err == nil:
		return samples.Placed
	case fault.KindOf(o.err) == fault.NoValidHost:
		return samples.Refused
	}
	return string(fault.KindOf(o.err))
}

// differences says how a gateway and its fleet differ from those for which the samples' expectations
// are; empty when they do not.
func differences(dev config.Dev) (all []string) {
	if dev.Cells < samples.MinCells || dev.Hosts < samples.MinHosts {
		all = append(all, fmt.Sprintf("%s of %s, not %d of %d", counted(dev.Cells, "cell"), counted(dev.Hosts, "host"), samples.MinCells, samples.MinHosts))
	}
	if len(dev.NovaConf) > 0 {
		all = append(all, "the settings of "+strings.Join(dev.NovaConf, ", "))
	}
	if dev.NovaRelease != "" {
		all = append(all, "the rules of Nova "+dev.NovaRelease)
	}
	return all
}

// mark begins the text about an unexpected outcome. Another configuration or a smaller fleet may refuse
// or place otherwise; nothing else excuses an outcome.
func mark(o outcome, differ []string) string {
	got := o.got()
	switch {
	case got == o.sample.Expect:
		return ""
	case len(differ) > 0 && (got == samples.Placed || got == samples.Refused || got == string(fault.InvalidRequest)):
		return fmt.Sprintf("OTHERWISE (%s by default): ", o.sample.Expect)
	}
	return fmt.Sprintf("UNEXPECTED (%s was): ", o.sample.Expect)
}

// sendSample sends the bundled requests in their order, in turn through REST and gRPC. It confirms the
// claims and prints a table. Its error counts the unexpected outcomes.
func sendSample(ctx context.Context, w io.Writer, api, web string, differ []string) error {
	all, err := samples.All()
	if err != nil {
		return err
	}
	conn, err := rpc.Dial(api)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // its calls are over
	rest := &http.Client{Transport: &http.Transport{}}
	defer rest.CloseIdleConnections()
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
			o.answer, o.err = postSample(within, rest, "http://"+web, s)
		} else {
			o.answer, o.err = cellgatev1.NewSchedulerClient(conn).SelectDestinations(within, s.Request)
		}
		if o.err == nil {
			o.err = confirmAll(within, conn, o.answer)
		}
		cancel()
		outcomes = append(outcomes, o)
	}
	took, n := time.Since(start), 0
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := show(w, func(p *page) {
		p.width = pageWidth
		n = showSample(p, outcomes, took, differ)
	}); err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%d of %d sample requests had another outcome than expected", n, len(outcomes))
	}
	return nil
}

// showSample prints one row for each placed instance, one for each refusal, and the totals. It gives
// the number of unexpected outcomes.
func showSample(p *page, outcomes []outcome, took time.Duration, differ []string) (unexpected int) {
	p.printf("\n")
	t := p.table("#", "REQUEST", "HOST", "WEIGHT", "ALTERNATES, OR WHY REFUSED")
	count, via, instances, otherwise := map[string]int{}, map[string]int{}, 0, 0
	for i, o := range outcomes {
		count[o.got()]++
		via[o.via]++
		marked := mark(o, differ)
		if strings.HasPrefix(marked, "UNEXPECTED") {
			unexpected++
		} else if marked != "" {
			otherwise++
		}
		lead := []any{i + 1, o.sample.Name}
		if o.err != nil {
			t.row(append(lead, o.got(), "", marked+refusalText(o.err, marked != ""))...)
			continue
		}
		instances += len(o.answer.GetDestinations())
		t.placed(lead, marked, o.answer)
	}
	t.print()
	failed := ""
	if n := len(outcomes) - count[samples.Placed] - count[samples.Refused]; n > 0 {
		failed = fmt.Sprintf(", %d failed", n)
	}
	p.printf("\n%d requests (%d REST, %d gRPC) in %v:\n%d placed (%d instances), %d refused for want of a host%s; %d unexpected\n",
		len(outcomes), via["REST"], via["gRPC"], took.Round(time.Millisecond), count[samples.Placed], instances, count[samples.Refused], failed, unexpected)
	if len(differ) > 0 {
		p.prose("The sample is written for the default configuration and fleet; here %d came otherwise, with %s", otherwise, strings.Join(differ, "; "))
	}
	return unexpected
}

// placed adds the rows of an answer. lead begins the first of them.
func (t *table) placed(lead []any, marked string, m *cellgatev1.SelectDestinationsResponse) {
	all := m.GetDestinations()
	for i, d := range all {
		if i == shownInstances && len(all) > shownInstances+1 {
			t.row(" ", " ", fmt.Sprintf("and %d more", len(all)-i), " ", " ")
			return
		}
		if i > 0 {
			lead, marked = []any{" ", " "}, ""
		}
		s := d.GetSelected()
		notes := joined(d.GetAlternates(), (*cellgatev1.Selection).GetServiceHost, ", ")
		if !s.GetClaimed() {
			notes = "not claimed (dry run)"
		}
		t.row(append(lead[:2:2], s.GetServiceHost(), fmt.Sprintf("%.6g", s.GetWeight()), marked+notes)...)
	}
}

// refusalText gives a refusal's counts, the first of them or the whole, or another error's text.
func refusalText(err error, whole bool) string {
	detail := refusal(err)
	if detail == nil {
		return wording(err)
	}
	most := shownRejects
	if whole {
		most = len(detail.GetRejects())
	}
	return fmt.Sprintf("0 of %d hosts: %s", detail.GetHosts(), rejectCounts(detail.GetRejects(), most))
}

var readForm = protojson.UnmarshalOptions{DiscardUnknown: true}

// postSample posts the sample's file unchanged, as a client without gRPC would. It gives the
// *fault.Error that a gRPC client would get.
func postSample(ctx context.Context, client *http.Client, base string, s samples.Sample) (*cellgatev1.SelectDestinationsResponse, error) {
	body, err := samples.Requests.ReadFile(s.File)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/select_destinations", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, fault.Wrap(fault.CellUnavailable, err, "no answer from the REST API")
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fault.Wrap(fault.CellUnavailable, err, "the REST API's answer broke off")
	}
	if resp.StatusCode != http.StatusOK {
		return nil, restError(resp.StatusCode, text)
	}
	m := &cellgatev1.SelectDestinationsResponse{}
	if err := readForm.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("the REST API's answer: %w", err)
	}
	return m, nil
}

// restError reads the JSON form of a google.rpc.Status.
func restError(code int, text []byte) error {
	var s spb.Status
	if err := readForm.Unmarshal(text, &s); err != nil || s.GetCode() == 0 {
		return fmt.Errorf("REST status %d: %.200s", code, text)
	}
	return rpc.FromStatus(status.ErrorProto(&s))
}
