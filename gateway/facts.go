package gateway

import (
	"bytes"
	"context"
	"encoding/json"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// maxFacts bounds the bytes of a namespace, as every cell does.
const maxFacts = 64 << 10

// putFacts writes what a service reports of a host into the cell that has the host.
func (g *Gateway) putFacts(ctx context.Context, req *cellgatev1.PutFactsRequest) (*cellgatev1.PutFactsResponse, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(req.GetFacts().AsMap()); err != nil {
		return nil, fault.Invalid("facts", "must be a JSON object, whose numbers are finite")
	}
	text.Truncate(text.Len() - 1) // the end of the line
	if text.Len() > maxFacts {
		return nil, fault.Invalid("facts", "has %d bytes as JSON, must have at most %d", text.Len(), maxFacts)
	}
	c, got, err := g.sendFacts(ctx, req.GetCell(), &cellv1.PutFactsRequest{
		HostUuid: cellclient.Canonical(req.GetHostUuid()), Namespace: req.GetNamespace(), Facts: text.String(), IfGeneration: req.GetIfGeneration(),
	})
	if err != nil {
		return nil, err
	}
	return &cellgatev1.PutFactsResponse{
		Namespace: &cellgatev1.HostNamespace{Name: req.GetNamespace(), Facts: req.GetFacts(), Generation: got.GetGeneration()}, Cell: c.Name(),
	}, nil
}

// deleteFacts deletes a namespace of a host.
func (g *Gateway) deleteFacts(ctx context.Context, req *cellgatev1.DeleteFactsRequest) (*cellgatev1.DeleteFactsResponse, error) {
	c, _, err := g.sendFacts(ctx, req.GetCell(), &cellv1.PutFactsRequest{
		HostUuid: cellclient.Canonical(req.GetHostUuid()), Namespace: req.GetNamespace(), IfGeneration: req.GetIfGeneration(),
	})
	if err != nil {
		return nil, err
	}
	return &cellgatev1.DeleteFactsResponse{Cell: c.Name()}, nil
}

// sendFacts sends a change of facts to the named cell; without a name it searches for the host's cell first.
func (g *Gateway) sendFacts(ctx context.Context, name string, req *cellv1.PutFactsRequest) (*cellclient.Cell, *cellv1.PutFactsResponse, error) {
	c, known, err := g.cellOfHost(ctx, name, req.GetHostUuid())
	if err != nil {
		return nil, nil, err
	}
	got, err := updateIfCurrent(ctx, g, c, req.GetHostUuid(), known, func(generation int64) (*cellv1.PutFactsResponse, error) {
		req.AsOfGeneration = generation
		return cellclient.CallFor(ctx, c, req.GetHostUuid(), g.cfg.ClaimBudget, req, cellv1.CellSchedulerClient.PutFacts)
	})
	return c, got, err
}
