package telemetry

import (
	"slices"
	"strconv"
	"time"
)

// Placement is a gateway's telemetry of its Placement API.
type Placement struct {
	*part
	requests []string
}

// Placement makes the handle of the process's Placement API. requests are the requests that it serves.
func (p *Process) Placement(requests []string) Placement {
	return Placement{p.newPart(), requests}
}

// Answered counts and times a request, and counts the cells that its answer lacks.
func (a Placement) Answered(request string, status int, took time.Duration, silent []string) {
	if !slices.Contains(a.requests, request) {
		request = other
	}
	a.add(gatewayPlacementRequests, 1, request, inList(labelStatus, strconv.Itoa(status)))
	a.observe(gatewayPlacementSeconds, took.Seconds(), request)
	for _, cell := range silent {
		a.add(gatewayPlacementSilent, 1, cell)
	}
}
