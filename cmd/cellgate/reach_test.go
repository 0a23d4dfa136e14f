package main

import (
	"strings"
	"testing"
	"time"

	"cellgate/internal/security/testca"
	"cellgate/internal/testaddr"
	"cellgate/internal/testwait"
)

// If TLS fails, a command says why and which flag to set.
func TestWhyTheGatewayIsNotReached(t *testing.T) {
	s := newSecured(t)
	s.ca.Write(s.dir, "elsewhere", testca.Leaf{Server: true, Name: "gw.example.org"})
	s.ca.Write(s.dir, "past", testca.Leaf{Server: true, From: time.Now().Add(-2 * time.Hour), To: time.Now().Add(-time.Hour)})
	ours, oursKey := s.ca.Write(s.dir, "alice", testca.Leaf{URIs: []string{"cellgate://operator/alice"}})
	theirs, theirsKey := s.foreign.Write(s.dir, "mallory", testca.Leaf{URIs: []string{"cellgate://operator/mallory"}})
	late, lateKey := s.ca.Write(s.dir, "late", testca.Leaf{URIs: []string{"cellgate://operator/late"}, From: time.Now().Add(-2 * time.Hour), To: time.Now().Add(-time.Hour)})
	foreignCA := testca.Put(s.dir, "foreign-ca.pem", s.foreign.PEM)
	serve := func(cert string) string {
		args := []string{"gateway", "--cell", "cell1=" + testaddr.Dead(t), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}
		if cert != "" {
			args = append(args, "--tls-cert", s.path(cert+".pem"), "--tls-key", s.path(cert+"-key.pem"), "--tls-client-ca", s.caFile)
		}
		p := launch(t, true, args...)
		at := p.await(`msg="gateway starts".* grpc=(\S+)`)[1]
		return at
	}
	hangs := listen(t)
	good, named, past, open := serve("server"), serve("elsewhere"), serve("past"), serve("")
	cell := launch(t, true, "cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001", "--data", t.TempDir(), "--grpc", "127.0.0.1:0").await(`msg="cell starts".* grpc=(\S+)`)[1]
	known := []string{"--ca", s.caFile, "--cert", ours, "--key", oursKey}
	for _, c := range []struct {
		name, addr string
		flags      []string
		says       string
		// Expected instead, if the server's message was lost with the connection.
		or string
	}{
		{"another CA", good, []string{"--ca", foreignCA, "--cert", ours, "--key", oursKey}, "its certificate is of a CA that is not known here; give --ca the CA of that certificate", ""},
		{"another name", named, known, "its certificate is for another name; call it by a name of its certificate, or give that name in --server-name", ""},
		{"expired", past, known, "its certificate has expired, or is not valid yet", ""},
		{"no certificate", good, known[:2], "it takes callers with a certificate only; give --cert and --key", "as one that takes callers with a certificate only does; give --cert and --key"},
		{"a foreign certificate", good, []string{"--ca", s.caFile, "--cert", theirs, "--key", theirsKey}, "the certificate shown to it is of a CA that it does not know; give --cert and --key a certificate of its client_ca", "does not accept the certificate shown to it does; give --cert and --key a certificate of its client_ca"},
		{"an expired certificate", good, []string{"--ca", s.caFile, "--cert", late, "--key", lateKey}, "the certificate shown to it has expired; replace --cert and --key", "does not accept the certificate shown to it does"},
		{"a server without TLS", open, known, "it does not speak TLS; leave --ca out", ""},
		{"a cell", cell, nil, "it does not serve this call, as a cell or a gateway of another version does; give --addr the gateway's gRPC address", ""},
		{"a server with TLS", good, nil, "it closed the connection, as one that speaks TLS does; give --ca the CA of its certificate", ""},
		{"one that hangs", hangs.Addr().String(), nil, ": it accepts connections and answers nothing", ""},
		{"nobody", testaddr.Dead(t), nil, "nothing listens there; start it, or correct the address", ""},
	} {
		_, stderr, status := typed(t.Context(), "", append([]string{"cells", "--addr", c.addr, "--timeout", testwait.Limit.String()}, c.flags...)...)
		if status != exitUnreachable || !strings.Contains(stderr, "no answer from the gateway at "+c.addr+": ") ||
			!strings.Contains(stderr, c.says) && (c.or == "" || !strings.Contains(stderr, c.or)) {
			t.Errorf("%s: status %d, %q, want %q", c.name, status, stderr, c.says)
		}
	}
	// With --server-name the same server is reached.
	_, stderr, status := typed(t.Context(), "", append([]string{"cells", "--addr", named, "--server-name", "gw.example.org"}, known...)...)
	if status != exitDone {
		t.Errorf("by its name: status %d, %s", status, stderr)
	}
}
