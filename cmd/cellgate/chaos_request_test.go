package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// chaosLoad configures the client of the chaos test.
type chaosLoad struct {
	Addr    string        `json:"addr"`
	Log     string        `json:"log"`
	Seed    uint64        `json:"seed"`
	Workers int           `json:"workers"`
	Short   time.Duration `json:"short"`
	Long    time.Duration `json:"long"`
	Within  time.Duration `json:"within"`
}

// chaosRequest is a request of the client and the fate of its claims. The seed and the request_id
// determine both, so that anybody who has these can repeat the request.
type chaosRequest struct {
	*cellgatev1.SelectDestinationsRequest
	ttl              time.Duration
	confirm, release bool
	// insist: the client repeats the request until it is answered.
	insist bool
	// hurried are the deadlines of calls that are sent first, in sequence, and given up when the
	// deadline passes.
	hurried []time.Duration
	// beside is how many more calls of the request are sent at the same time.
	beside int
}

// chaosRequests starts the ids of all requests of the client.
const chaosRequests = "chaos-"

func (l chaosLoad) request(id string) chaosRequest {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	dice := rand.New(rand.NewPCG(l.Seed, h.Sum64()))
	small := &cellgatev1.Flavor{Name: "small", Vcpus: 1, MemoryMb: 1024, RootGb: 10}
	large := &cellgatev1.Flavor{Name: "large", Vcpus: 8, MemoryMb: 16384, RootGb: 100}
	spec, count := &cellgatev1.RequestSpec{Flavor: small}, 1
	switch n := dice.IntN(100); {
	case n < 25:
		spec.Flavor = large
	case n < 35:
		count = 3
	case n < 40:
		// There are few of these, so that they are used up most of the time.
		spec.Resources = map[string]int32{"VGPU": 4}
	}
	r := chaosRequest{ttl: l.Long, insist: dice.IntN(2) == 0}
	switch n := dice.IntN(100); {
	case n < 35:
		r.confirm = true
	case n < 50:
		r.release = true
	case n < 75:
		r.ttl = l.Short
	}
	switch n := dice.IntN(100); {
	case n < 25:
		for range 1 + dice.IntN(3) {
			r.hurried = append(r.hurried, time.Duration(1+dice.IntN(50))*time.Millisecond)
		}
	case n < 40:
		r.beside = 1 + dice.IntN(2)
	}
	r.SelectDestinationsRequest = &cellgatev1.SelectDestinationsRequest{
		RequestId: id, ReturnAlternates: dice.IntN(4) == 0, ClaimTtl: durationpb.New(r.ttl),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: spec},
	}
	for range count {
		var u [16]byte
		binary.BigEndian.PutUint64(u[:8], dice.Uint64())
		binary.BigEndian.PutUint64(u[8:], dice.Uint64())
		u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
		r.InstanceUuids = append(r.InstanceUuids, fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
	}
	return r
}

// essence is the part of an answer that a repeated request must get again. It excludes the state
// and deadline of a claim, which change, and the cells' reports.
func essence(resp *cellgatev1.SelectDestinationsResponse) string {
	var b strings.Builder
	one := func(s *cellgatev1.Selection) {
		fmt.Fprintf(&b, "%s %s %s %s %s %s|", s.GetCell(), s.GetComputeNodeUuid(), s.GetServiceHost(), s.GetNodename(), s.GetClaimId(), s.GetAllocationRequest())
	}
	for _, d := range resp.GetDestinations() {
		fmt.Fprintf(&b, "%s: ", d.GetInstanceUuid())
		one(d.GetSelected())
		for _, a := range d.GetAlternates() {
			one(a)
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:12])
}

// acknowledged is the note of an answer.
func acknowledged(id string, sent time.Time, resp *cellgatev1.SelectDestinationsResponse) note {
	n := note{Kind: noteAcknowledged, Request: id, Sent: sent, Essence: essence(resp)}
	for _, d := range resp.GetDestinations() {
		s := d.GetSelected()
		c := noteClaim{Consumer: d.GetInstanceUuid(), Claim: s.GetClaimId(), Cell: s.GetCell(), Host: s.GetServiceHost()}
		if s.GetClaimExpiresAt() != nil {
			c.Expires = s.GetClaimExpiresAt().AsTime()
		}
		n.Claims = append(n.Claims, c)
	}
	return n
}
