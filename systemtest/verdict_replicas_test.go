package systemtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/agent"
	"cellgate/cell"
	"cellgate/cell/agents"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard/pebbleshard"
)

// pair is a cell of two replicas over one shard, in a bubble, and a host whose agent has a stream
// to each.
type pair struct {
	t        *testing.T
	replicas []cellv1.CellSchedulerClient
	host     *agent.Host
}

func startPair(t *testing.T, mode agents.VerifyMode) *pair {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	listeners := map[string]*bufconn.Listener{}
	dial := func(target string) (*grpc.ClientConn, error) {
		return rpc.Dial("passthrough:///"+target, grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
			if listeners[name] == nil {
				return nil, errors.New("nobody listens at " + name)
			}
			return listeners[name].DialContext(ctx)
		}))
	}
	run := func(f func(context.Context) error, ready <-chan struct{}) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- f(ctx) }()
		t.Cleanup(func() { cancel(); must(t, <-done) })
		<-ready
	}
	store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: "cell1", CellUUID: uuidOf(0xc, 1), Log: log})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	p := &pair{t: t, host: agent.NewHost(hostState(1, 1))}
	var names []string
	for n := range 2 {
		name := fmt.Sprintf("r%d", n+1)
		c, err := cell.New(cell.Config{Name: "cell1", UUID: uuidOf(0xc, 1), Replica: name, ServiceDownTime: time.Hour, VerifyMode: mode}, cell.Deps{Store: store, Log: log})
		must(t, err)
		run(c.Run, c.Ready())
		server, l, done := rpc.NewServer(log), bufconn.Listen(1<<16), make(chan error, 1)
		c.Register(server)
		listeners[name] = l
		go func() { done <- server.Serve(l) }()
		t.Cleanup(func() { server.Stop(); must(t, <-done) })
		conn, err := dial(name)
		must(t, err)
		t.Cleanup(func() { must(t, conn.Close()) })
		p.replicas, names = append(p.replicas, cellv1.NewCellSchedulerClient(conn)), append(names, name)
	}
	f, err := agent.NewFleet(agent.FleetConfig{Cell: "cell1", Replicas: names}, agent.FleetDeps{Source: hostList{p.host}, Dial: dial, Log: log})
	must(t, err)
	run(f.Run, f.Ready())
	// Both streams are connected, and each replica has read entries of the other.
	time.Sleep(time.Second)
	for n := range p.replicas {
		for _, op := range []*cellv1.ClaimOp{claimAll(1000 + n), releaseOf(1000 + n)} {
			if r := p.do(n, op).GetRefusal(); r != nil {
				t.Fatal(r)
			}
			time.Sleep(time.Second)
		}
	}
	return p
}

// do has a replica do an operation.
func (p *pair) do(replica int, op *cellv1.ClaimOp) *cellv1.ClaimOutcome {
	p.t.Helper()
	out, err := p.replicas[replica].ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{op}})
	must(p.t, err)
	return out.GetOutcomes()[0]
}

func claimAll(n int) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Claim{Claim: &cellv1.NewClaim{
		ClaimId: fmt.Sprint("c", n), ConsumerUuid: uuidOf(0x1, n), HostUuid: uuidOf(0xa, 1), Ttl: durationpb.New(time.Hour),
		Allocations: []*cellgatev1.Allocation{{ProviderUuid: uuidOf(0xa, 1), ResourceClass: "VCPU", Amount: hostVCPUs}},
	}}}
}

func refOf(n int) *cellv1.ClaimRef {
	return &cellv1.ClaimRef{ClaimId: fmt.Sprint("c", n), ConsumerUuid: uuidOf(0x1, n)}
}

func confirmOf(n int) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Confirm{Confirm: refOf(n)}}
}

func releaseOf(n int) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: refOf(n)}}
}

// Claims fill the host's only room one after the other. The host accepts every claim, whichever
// replica made it and whichever replica released the claim before it.
func TestAHostRejectsNoClaimOfWhatAnotherReplicaGaveBack(t *testing.T) {
	for _, mode := range []agents.VerifyMode{agents.VerifyAsync, agents.VerifySync} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startPair(t, mode)
				random := rand.New(rand.NewPCG(5, 17))
				for n := range 300 {
					began := time.Now()
					if r := p.do(random.IntN(2), claimAll(n)).GetRefusal(); r != nil {
						t.Fatalf("claim %d: %v", n, r)
					}
					if took := time.Since(began); took > agents.MaxVerifyWait {
						t.Errorf("claim %d took %v", n, took)
					}
					if random.IntN(2) == 0 {
						time.Sleep(30 * time.Millisecond)
						synctest.Wait()
						if r := p.do(random.IntN(2), confirmOf(n)).GetRefusal(); r != nil {
							t.Fatalf("confirm %d: %v", n, r)
						}
					}
					if r := p.do(random.IntN(2), releaseOf(n)).GetRefusal(); r != nil {
						t.Fatalf("release %d: %v", n, r)
					}
				}
			})
		})
	}
}

// With two replicas too, a host rejects a claim that it has no room for, within MaxVerifyWait.
func TestAHostRejectsWhatItHasNotWithTwoReplicas(t *testing.T) {
	for _, mode := range []agents.VerifyMode{agents.VerifyAsync, agents.VerifySync} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startPair(t, mode)
				_, err := p.host.Claims().InstanceClaim(&agentv1.InstanceClaimRequest{
					ClaimId: localClaim, InstanceUuid: uuidOf(0x1, 900),
					Usages: []*agentv1.Usage{{ProviderUuid: uuidOf(0xa, 1), ResourceClass: "VCPU", Amount: 1}},
				})
				must(t, err)
				began := time.Now()
				out := p.do(0, claimAll(1))
				if took := time.Since(began); took >= agents.MaxVerifyWait {
					t.Errorf("the claim took %v", took)
				}
				if mode == agents.VerifyAsync {
					time.Sleep(30 * time.Millisecond)
					synctest.Wait()
					out = p.do(1, confirmOf(1))
				}
				if r := out.GetRefusal(); r.GetReason() != string(fault.ClaimRejected) || r.GetDetail() != "NO_ROOM" {
					t.Errorf("answered with %v", out)
				}
			})
		})
	}
}
