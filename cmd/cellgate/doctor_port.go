package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"cellgate/internal/config"
	"cellgate/internal/health"
)

// addresses examines where one process listens.
type addresses struct {
	*doctor
	// process is the one that is to listen there, with these files.
	process health.Process
	files   config.ServerTLS
	// running says whether the process runs, where something else than its ports
	// shows it; nil when nothing does.
	running *bool
	// served is whether one of the ports was seen to be the process's own.
	served bool
}

// port examines an address to listen on: it is free, or the process runs already.
func (a *addresses) port(key, addr string) {
	check := key + " " + addr
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		_ = l.Close() // it was never served
		a.ok(check, "is free")
	case errors.Is(err, syscall.EADDRINUSE):
		a.inUse(check, key, addr)
	case errors.Is(err, syscall.EACCES):
		a.add(check, unhealthy, "this user may not listen there", "give a port above 1023")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		a.add(check, unhealthy, "this machine does not have that address", "give one of its addresses, or 0.0.0.0 for all")
	default:
		a.add(check, unhealthy, err.Error(), "give another address")
	}
}

// inUse says whose a port is that is in use. Certificates are not verified: nothing is
// trusted to the server, and nothing secret is shown to it.
func (a *addresses) inUse(check, key, addr string) {
	unverified := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // see above
	another := "stop what uses it, or give " + key + " another address"
	is, known := a.ask(addr, unverified)
	switch {
	case known:
		a.judge(check, is, another)
	case a.files.Cert == "" || !shows(a.ctx, addr, a.files, unverified):
		a.add(check, unhealthy, "is in use by something that does not answer as a cellgate would", another)
	case a.running == nil:
		a.add(check, warned, "is served with "+a.files.Cert+", to callers with a certificate only: whether this one runs cannot be asked", "see which process it is; if another, "+another)
	case *a.running:
		a.served = true
		a.ok(check, "is served with %s, and a process holds the shard: already running", a.files.Cert)
	default:
		a.add(check, unhealthy, "is served with "+a.files.Cert+" by another: nobody holds the shard of "+a.process.String(), another)
	}
}

// judge compares the process that is at an address with the one that is to be.
func (a *addresses) judge(check string, is health.Process, another string) {
	want := a.process
	cells := func(p health.Process) []string { return slices.Sorted(slices.Values(p.Cells)) }
	shared := slices.ContainsFunc(is.Cells, func(c string) bool { return slices.Contains(want.Cells, c) })
	others := !slices.Equal(cells(is), cells(want))
	text := "is served by " + is.String()
	is.Cells, want.Cells = nil, nil
	switch {
	case is.Encode() != want.Encode(), others && !shared:
		a.add(check, unhealthy, text+", not by "+a.process.String(), another)
	case others:
		a.served = true
		a.add(check, warned, text+", not over "+strings.Join(a.process.Cells, ", "), "restart it when it is this one, whose cells were changed since it started; otherwise "+another)
	default:
		a.served = true
		a.ok(check, "%s: already running", text)
	}
}

// ask gives the process that serves an address, by gRPC or HTTP, with TLS or without:
// the configuration may have been changed since it started.
func (a *addresses) ask(addr string, unverified *tls.Config) (health.Process, bool) {
	ctx, cancel := context.WithTimeout(a.ctx, askWithin)
	defer cancel()
	plain := func() (health.Process, bool) {
		if p, ok := servedBy(ctx, addr, insecure.NewCredentials()); ok {
			return p, true
		}
		return webServedBy(ctx, "http://"+addr, nil)
	}
	encrypted := func() (health.Process, bool) {
		if p, ok := servedBy(ctx, addr, credentials.NewTLS(unverified.Clone())); ok {
			return p, true
		}
		return webServedBy(ctx, "https://"+addr, unverified.Clone())
	}
	ways := []func() (health.Process, bool){plain, encrypted}
	if a.files.Cert != "" {
		slices.Reverse(ways)
	}
	for _, way := range ways {
		if p, ok := way(); ok {
			return p, true
		}
	}
	return health.Process{}, false
}

// shows reports whether the server at an address shows the certificate of files:
// one that answers only to those who have a certificate too says no more.
func shows(ctx context.Context, addr string, files config.ServerTLS, unverified *tls.Config) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return false // told with the files
	}
	conn, err := (&tls.Dialer{Config: unverified}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	secure, ok := conn.(*tls.Conn)
	return ok && len(secure.ConnectionState().PeerCertificates) > 0 && secure.ConnectionState().PeerCertificates[0].Equal(own.Leaf)
}

// servedBy gives the process whose gRPC health service answers.
func servedBy(ctx context.Context, addr string, creds credentials.TransportCredentials) (health.Process, bool) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		return health.Process{}, false
	}
	defer func() { _ = conn.Close() }()
	var header metadata.MD
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header)); err != nil || len(header.Get(health.ProcessHeader)) == 0 {
		return health.Process{}, false
	}
	return health.DecodeProcess(header.Get(health.ProcessHeader)[0])
}

// webServedBy is the same for HTTP: only a cellgate's /healthz is a Report.
func webServedBy(ctx context.Context, url string, config *tls.Config) (health.Process, bool) {
	report, ok := webReport(ctx, url+"/healthz", config)
	if !ok {
		return health.Process{}, false
	}
	return *report.Process, true
}

// webReport is what a process says of its health; false for what is no cellgate's.
func webReport(ctx context.Context, url string, config *tls.Config) (report health.Report, ok bool) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return report, false
	}
	resp, err := client.Do(req)
	if err != nil {
		return report, false
	}
	defer func() { _ = resp.Body.Close() }()
	if json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<16)).Decode(&report) != nil || report.Process == nil || report.Process.Kind == "" {
		return report, false
	}
	return report, true
}
