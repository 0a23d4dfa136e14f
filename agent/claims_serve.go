package agent

import (
	"context"

	"google.golang.org/grpc"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// RegisterClaims serves a host's claims (HostClaims). Requests must have been validated.
func RegisterClaims(s grpc.ServiceRegistrar, c *Claims) {
	agentv1.RegisterHostClaimsServer(s, &claimsServer{claims: c})
}

type claimsServer struct {
	agentv1.UnimplementedHostClaimsServer
	claims *Claims
}

func (s *claimsServer) InstanceClaim(_ context.Context, in *agentv1.InstanceClaimRequest) (*agentv1.InstanceClaimResponse, error) {
	c, err := s.claims.InstanceClaim(in)
	return &agentv1.InstanceClaimResponse{Claim: c}, err
}

func (s *claimsServer) ResizeClaim(_ context.Context, in *agentv1.ResizeClaimRequest) (*agentv1.ResizeClaimResponse, error) {
	c, err := s.claims.ResizeClaim(in)
	return &agentv1.ResizeClaimResponse{Claim: c}, err
}

func (s *claimsServer) MoveClaim(_ context.Context, in *agentv1.MoveClaimRequest) (*agentv1.MoveClaimResponse, error) {
	c, err := s.claims.MoveClaim(in)
	return &agentv1.MoveClaimResponse{Claim: c}, err
}

func (s *claimsServer) AbortClaim(_ context.Context, in *agentv1.AbortClaimRequest) (*agentv1.AbortClaimResponse, error) {
	c, err := s.claims.AbortClaim(in.GetClaimId())
	return &agentv1.AbortClaimResponse{Claim: c}, err
}

func (s *claimsServer) ListHostClaims(context.Context, *agentv1.ListHostClaimsRequest) (*agentv1.ListHostClaimsResponse, error) {
	return &agentv1.ListHostClaimsResponse{Claims: s.claims.List()}, nil
}
