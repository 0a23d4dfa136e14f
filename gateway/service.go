package gateway

import (
	"context"
	"strings"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The public services. Field rules were checked by the server's interceptor;
// each method is one operation in a file of its own. An answer beside an error is not sent.

type schedulerService struct {
	cellgatev1.UnimplementedSchedulerServer
	g *Gateway
}

func (s *schedulerService) SelectDestinations(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	resp, err := s.g.selector.Select(ctx, req)
	err = s.g.suggestClasses(req.GetRequestSpec(), err)
	if !req.GetDryRun() {
		s.g.logCaller(ctx, "SelectDestinations", req, err)
	}
	return resp, err
}

func (s *schedulerService) ExplainDestinations(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.ExplainDestinationsResponse, error) {
	resp, err := s.g.selector.Explain(ctx, req)
	if err != nil {
		return nil, err
	}
	if !resp.GetPartial() {
		resp.UnknownValues = s.g.unknownValues(ctx, req.GetRequestSpec())
	}
	return resp, nil
}

func (s *schedulerService) GetDecision(ctx context.Context, req *cellgatev1.GetDecisionRequest) (*cellgatev1.GetDecisionResponse, error) {
	d, err := s.g.decisions.Get(ctx, req.GetDecisionId())
	return &cellgatev1.GetDecisionResponse{Decision: d}, err
}

func (s *schedulerService) ListDecisions(ctx context.Context, req *cellgatev1.ListDecisionsRequest) (*cellgatev1.ListDecisionsResponse, error) {
	resp, err := s.g.decisions.List(ctx, req)
	if host := req.GetHost(); err == nil && host != "" && len(resp.GetDecisions())+len(req.GetPageToken())+len(resp.GetNextPageToken())+len(resp.GetUnavailableCells()) == 0 {
		resp.UnknownValues = s.g.unknownHost(ctx, host)
	}
	return resp, err
}

type claimsService struct {
	cellgatev1.UnimplementedClaimsServer
	g *Gateway
}

func (s *claimsService) GetClaim(ctx context.Context, req *cellgatev1.GetClaimRequest) (*cellgatev1.GetClaimResponse, error) {
	c, other, err := s.g.claims.Get(ctx, req)
	return &cellgatev1.GetClaimResponse{Claim: c, OtherClaim: other}, err
}

func (s *claimsService) ListClaims(ctx context.Context, req *cellgatev1.ListClaimsRequest) (*cellgatev1.ListClaimsResponse, error) {
	resp, err := s.g.claims.List(ctx, req)
	if host := req.GetHostUuid(); err == nil && host != "" && len(resp.GetClaims())+len(req.GetPageToken())+len(resp.GetNextPageToken()) == 0 {
		resp.UnknownValues = s.g.unknownHost(ctx, host)
	}
	return resp, err
}

func (s *claimsService) ConfirmClaim(ctx context.Context, req *cellgatev1.ConfirmClaimRequest) (*cellgatev1.ConfirmClaimResponse, error) {
	c, err := s.g.claims.Confirm(ctx, req)
	s.g.logCaller(ctx, "ConfirmClaim", req, err)
	return &cellgatev1.ConfirmClaimResponse{Claim: c}, err
}

func (s *claimsService) ClaimAlternate(ctx context.Context, req *cellgatev1.ClaimAlternateRequest) (*cellgatev1.ClaimAlternateResponse, error) {
	c, err := s.g.claims.ClaimAlternate(ctx, req)
	s.g.logCaller(ctx, "ClaimAlternate", req, err)
	return &cellgatev1.ClaimAlternateResponse{Claim: c}, err
}

func (s *claimsService) TransferClaim(ctx context.Context, req *cellgatev1.TransferClaimRequest) (*cellgatev1.TransferClaimResponse, error) {
	c, err := s.g.claims.Transfer(ctx, req)
	s.g.logCaller(ctx, "TransferClaim", req, err)
	return &cellgatev1.TransferClaimResponse{Claim: c}, err
}

func (s *claimsService) ReleaseClaim(ctx context.Context, req *cellgatev1.ReleaseClaimRequest) (*cellgatev1.ReleaseClaimResponse, error) {
	c, err := s.g.claims.ReleaseClaim(ctx, req)
	s.g.logCaller(ctx, "ReleaseClaim", req, err)
	return &cellgatev1.ReleaseClaimResponse{Claim: c}, err
}

type cellsService struct {
	cellgatev1.UnimplementedCellsServer
	g *Gateway
}

func (s *cellsService) ListCells(ctx context.Context, _ *cellgatev1.ListCellsRequest) (*cellgatev1.ListCellsResponse, error) {
	return &cellgatev1.ListCellsResponse{Cells: s.g.listCells(ctx), WebUrl: s.g.cfg.WebURL}, nil
}

func (s *cellsService) GetCell(ctx context.Context, req *cellgatev1.GetCellRequest) (*cellgatev1.GetCellResponse, error) {
	c, err := s.g.getCell(ctx, req.GetCell())
	return &cellgatev1.GetCellResponse{Cell: c}, err
}

func (s *cellsService) UpdateCell(ctx context.Context, req *cellgatev1.UpdateCellRequest) (*cellgatev1.UpdateCellResponse, error) {
	c, err := s.g.updateCell(ctx, req)
	return &cellgatev1.UpdateCellResponse{Cell: c}, err
}

func (s *cellsService) ListFindings(ctx context.Context, req *cellgatev1.ListFindingsRequest) (*cellgatev1.ListFindingsResponse, error) {
	return s.g.claims.ListFindings(ctx, req)
}

type capacityService struct {
	cellgatev1.UnimplementedCapacityServer
	g *Gateway
}

func (s *capacityService) EstimateCapacity(ctx context.Context, req *cellgatev1.EstimateCapacityRequest) (*cellgatev1.EstimateCapacityResponse, error) {
	resp, err := s.g.capacity.Estimate(ctx, req)
	for i, shape := range resp.GetShapes() {
		if shape.GetInstances() == 0 {
			shape.Message = strings.Join(append([]string{shape.GetMessage()}, s.g.unknownValues(ctx, req.GetShapes()[i].GetRequestSpec())...), "; ")
		}
	}
	return resp, err
}

func (s *capacityService) PlanDrain(ctx context.Context, req *cellgatev1.PlanDrainRequest) (*cellgatev1.PlanDrainResponse, error) {
	return s.g.capacity.PlanDrain(ctx, req)
}

type hostsService struct {
	cellgatev1.UnimplementedHostsServer
	g *Gateway
}

func (s *hostsService) ListHosts(ctx context.Context, req *cellgatev1.ListHostsRequest) (*cellgatev1.ListHostsResponse, error) {
	return s.g.listHosts(ctx, req)
}

func (s *hostsService) GetHost(ctx context.Context, req *cellgatev1.GetHostRequest) (*cellgatev1.GetHostResponse, error) {
	h, err := s.g.getHost(ctx, req.GetHostUuid())
	return &cellgatev1.GetHostResponse{Host: h}, err
}

func (s *hostsService) UpdateHost(ctx context.Context, req *cellgatev1.UpdateHostRequest) (*cellgatev1.UpdateHostResponse, error) {
	h, err := s.g.updateHost(ctx, req)
	return &cellgatev1.UpdateHostResponse{Host: h}, err
}

func (s *hostsService) DeleteHost(ctx context.Context, req *cellgatev1.DeleteHostRequest) (*cellgatev1.DeleteHostResponse, error) {
	return s.g.deleteHost(ctx, req)
}

func (s *hostsService) ResyncHosts(ctx context.Context, req *cellgatev1.ResyncHostsRequest) (*cellgatev1.ResyncHostsResponse, error) {
	return s.g.resyncHosts(ctx, req)
}

func (s *hostsService) GetFacts(ctx context.Context, req *cellgatev1.GetFactsRequest) (*cellgatev1.GetFactsResponse, error) {
	h, err := s.g.getHost(ctx, req.GetHostUuid())
	if err != nil {
		return nil, err
	}
	for _, n := range h.GetNamespaces() {
		if n.GetName() == req.GetNamespace() {
			return &cellgatev1.GetFactsResponse{Namespace: n, Cell: h.GetCell()}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "host %s has no facts in namespace %q", req.GetHostUuid(), req.GetNamespace()).With("cell", h.GetCell())
}

func (s *hostsService) PutFacts(ctx context.Context, req *cellgatev1.PutFactsRequest) (*cellgatev1.PutFactsResponse, error) {
	resp, err := s.g.putFacts(ctx, req)
	s.g.logCaller(ctx, "PutFacts", req, err)
	return resp, err
}

func (s *hostsService) DeleteFacts(ctx context.Context, req *cellgatev1.DeleteFactsRequest) (*cellgatev1.DeleteFactsResponse, error) {
	resp, err := s.g.deleteFacts(ctx, req)
	s.g.logCaller(ctx, "DeleteFacts", req, err)
	return resp, err
}
