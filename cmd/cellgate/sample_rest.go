package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/samples"
)

// maxAnswer bounds what is read of a REST answer.
const maxAnswer = 64 << 20

// restClient sends requests as a client without gRPC would.
type restClient struct {
	base string
	http *http.Client
}

var readForm = protojson.UnmarshalOptions{DiscardUnknown: true}

// selectDestinations posts the sample's file as it is. Its errors are the
// *fault.Error that a gRPC client would get.
func (c *restClient) selectDestinations(ctx context.Context, s samples.Sample) (*cellgatev1.SelectDestinationsResponse, error) {
	body, err := samples.Requests.ReadFile(s.File)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/select_destinations", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
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
