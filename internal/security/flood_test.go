package security

import (
	"crypto/tls"
	"net"
	"runtime"
	"testing"

	"cellgate/internal/ingress"
	"cellgate/internal/security/testca"
)

// rawConn connects to the rig's server as HTTP/2 does.
func (r *rig) rawConn(c ClientConfig) net.Conn {
	r.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			r.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	conn, err := tls.Dial("tcp", r.addr, config)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// Each flood sends 400 MiB of messages that never end.
func TestFlood_UnfinishedMessages_HeapBounded(t *testing.T) {
	const streams, sent = 400, 1 << 20
	for name, c := range map[string]struct {
		method  string
		caller  string
		most    int64
		headers []string
		// ends: the server closes the connection during the flood.
		ends bool
	}{
		"health without a credential":     {method: "/grpc.health.v1.Health/Check", most: 64 << 20},
		"reflection without a credential": {method: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", most: 32 << 20},
		"an unknown token":                {method: "/cellgate.v1.Cells/ListCells", most: 32 << 20, headers: []string{"authorization", "Bearer x", "grpc-timeout", "1H"}},
		"a role that may not":             {method: "/cellgate.v1.Cells/ListCells", caller: "cellgate://agent/h1", most: 32 << 20, ends: true},
		"an agent":                        {method: "/cellgate.agent.v1.HostReports/Report", caller: "cellgate://agent/h1", most: 160 << 20},
		"a reader":                        {method: "/cellgate.v1.Cells/ListCells", caller: "cellgate://reader/x", most: 160 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig, c *ServerConfig) {
				c.Tokens, c.ClientCertOptional = testca.Put(r.dir, "tokens", nil), true
			})
			caller := ClientConfig{}
			if c.caller != "" {
				caller = r.certificate("caller", testca.Leaf{URIs: []string{c.caller}})
			}
			conn := r.rawConn(caller)
			before := heapInUse()
			got, err := flood{method: c.method, headers: c.headers, streams: streams, declared: 4 << 20, sent: sent}.run(conn)
			if err != nil && !c.ends {
				t.Fatal(err)
			}
			grown := heapInUse() - before
			t.Logf("%+v; the heap grew by %d MiB, %d MiB are charged", got, grown>>20, r.s.in.Held()>>20)
			if grown > c.most {
				t.Errorf("the heap grew by %d MiB, most is %d", grown>>20, c.most>>20)
			}
			if got.refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// 4,000 messages that fit into their streams' windows, 225 MiB together, and never end.
func TestFlood_SmallUnfinishedMessages_HeapBounded(t *testing.T) {
	r := newRig(t, nil)
	conn := r.rawConn(r.certificate("caller", testca.Leaf{URIs: []string{"cellgate://agent/h1"}}))
	before := heapInUse()
	f := flood{method: "/cellgate.agent.v1.HostReports/Report", streams: 4000, declared: 60000, sent: 59000}
	if _, err := f.run(conn); err != nil {
		t.Fatal(err)
	}
	if grown := heapInUse() - before; grown > 160<<20 {
		t.Errorf("the heap grew by %d MiB, most is 160", grown>>20)
	}
}

// An agent opens streams, and begins a small message on each.
func TestFlood_StreamsOfOneAgent_Bounded(t *testing.T) {
	const streams, most = 400, 100
	r := newRig(t, func(_ *rig, c *ServerConfig) { c.Limits = ingress.Limits{CallerCalls: most} })
	conn := r.rawConn(r.certificate("caller", testca.Leaf{URIs: []string{"cellgate://agent/h1"}}))
	got, err := flood{method: "/cellgate.agent.v1.HostReports/Report", streams: streams, declared: 256 << 10, sent: 128 << 10}.run(conn)
	if err != nil {
		t.Fatal(err)
	}
	if got.refused != streams-most {
		t.Errorf("%d of %d streams were refused, want %d", got.refused, streams, streams-most)
	}
}
