package simulation

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"cellgate/gateway"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// gatewayNode is a gateway, alive or not.
type gatewayNode struct {
	world       *world
	name        string
	clock       clock
	conn        *grpc.ClientConn // of the callers
	incarnation *incarnation     // of that connection

	mu   sync.Mutex
	runs *serving
}

// serving is one run of a gateway.
type serving struct {
	incarnation *incarnation
	cancel      context.CancelFunc
	stop        func()
	ended       chan error
}

func (w *world) newGatewayNode(n int) *gatewayNode {
	d := &gatewayNode{world: w, name: w.plan.gatewayName(n), incarnation: newIncarnation()}
	conn, err := w.net.dialer(callers, d.incarnation)(d.name)
	w.must(err)
	d.conn = conn
	return d
}

func (d *gatewayNode) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs != nil {
		return
	}
	w := d.world
	run := &serving{incarnation: newIncarnation(), ended: make(chan error, 1)}
	cfg := gateway.Config{}
	for _, c := range w.cells {
		cc := gateway.CellConfig{Name: c.name, UUID: c.uuid}
		for _, r := range c.replicas {
			cc.Replicas = append(cc.Replicas, r.name)
		}
		cfg.Cells = append(cfg.Cells, cc)
	}
	g, err := gateway.New(cfg, gateway.Deps{Log: w.log, Dial: w.net.dialer(d.name, run.incarnation), Now: d.clock.now})
	w.must(err)
	server, l := rpc.NewServer(w.log, g.ServerOptions()...), w.net.listen(d.name)
	g.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	ctx, cancel := context.WithCancel(context.Background())
	run.cancel = cancel
	go func() { run.ended <- g.Run(ctx) }()
	run.stop = func() {
		w.net.leave(d.name, l)
		server.Stop()
		<-served
	}
	d.runs = run
	w.trace("%s starts", d.name)
}

// kill ends the current run at once. Releases that it has not sent are never sent.
func (d *gatewayNode) kill() {
	d.mu.Lock()
	run := d.runs
	d.runs = nil
	d.mu.Unlock()
	if run == nil {
		return
	}
	run.incarnation.die()
	d.world.net.silence(d.name, func(*wire) bool { return true })
	run.stop()
	run.cancel()
	if err := <-run.ended; err != nil {
		d.world.wrong("%s ended with %v", d.name, err)
	}
}

func (d *gatewayNode) scheduler() cellgatev1.SchedulerClient {
	return cellgatev1.NewSchedulerClient(d.conn)
}
func (d *gatewayNode) claims() cellgatev1.ClaimsClient { return cellgatev1.NewClaimsClient(d.conn) }
func (d *gatewayNode) hosts() cellgatev1.HostsClient   { return cellgatev1.NewHostsClient(d.conn) }
