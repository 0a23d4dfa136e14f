package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"cellgate/agent"
	"cellgate/internal/security"
	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The outcomes of docs/reference/security.md.
const (
	allowed         = "allowed"
	unauthenticated = "UNAUTHENTICATED"
	denied          = "PERMISSION_DENIED"
	noConnection    = "no connection"
)

func TestTokenNew_Help_NamesEveryRole(t *testing.T) {
	help, _, _ := typed(t.Context(), "", "token", "new", "--help")
	for _, role := range security.Roles() {
		if !regexp.MustCompile(`--role string .*\b` + string(role) + `\b`).MatchString(help) {
			t.Errorf("role %s is not in\n%s", role, help)
		}
	}
}

// documented reads a table of docs/reference/security.md: the cells of each row.
func documented(t *testing.T, name string) [][]string {
	t.Helper()
	text := readFile(t, "../../docs/reference/security.md")
	_, text, ok := strings.Cut(text, "<!-- "+name+" -->\n")
	text, _, end := strings.Cut(text, "<!-- /"+name+" -->")
	if !ok || !end {
		t.Fatalf("docs/reference/security.md has no table %q", name)
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func TestAccessTableOfTheDocumentationIsTheOneInForce(t *testing.T) {
	var want []string
	access := security.Access()
	for _, method := range slices.Sorted(maps.Keys(access)) {
		roles := "everybody"
		for i, role := range access[method] {
			if i == 0 {
				roles = ""
			} else {
				roles += ", "
			}
			roles += "`" + string(role) + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s |", method, roles))
	}
	var got []string
	for _, cells := range documented(t, "access") {
		got = append(got, "| "+strings.Join(cells, " | ")+" |")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table of docs/reference/security.md is not that of internal/security/access.go, which is:\n%s", strings.Join(want, "\n"))
	}
}

// rolesOf gives the roles that the documentation lets call each method.
func rolesOf(t *testing.T) map[string][]security.Role {
	t.Helper()
	out := map[string][]security.Role{}
	for _, cells := range documented(t, "access") {
		var roles []security.Role
		for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			roles = append(roles, security.Role(m[1]))
		}
		out[strings.Trim(cells[0], "`")] = roles
	}
	return out
}

// servedMethods asks a server by reflection what it serves.
func servedMethods(t *testing.T, conn *grpc.ClientConn) map[string]protoreflect.MethodDescriptor {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]protoreflect.MethodDescriptor{}
	for _, s := range m.GetListServicesResponse().GetService() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.GetName()))
		if err != nil {
			t.Fatalf("%s: %v", s.GetName(), err)
		}
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			out[s.GetName()+"/"+string(methods.Get(i).Name())] = methods.Get(i)
		}
	}
	return out
}

// caller is a credential and what the documentation calls it.
type caller struct {
	name string
	// role is the role that the credential proves, or "".
	role security.Role
	// outcome names a row of the table of outcomes, if every call except the open ones ends so
	// whatever its role.
	outcome string
	client  *security.Client
}

// expects returns the expected outcome of a call, as a column of the table names it.
func (c caller) expects(roles []security.Role, outcomes map[string]string) string {
	switch {
	case outcomes[c.outcome] == noConnection:
		return noConnection
	case len(roles) == 0:
		return allowed
	case c.outcome != "":
		return outcomes[c.outcome]
	case !slices.Contains(roles, c.role):
		return outcomes["another role"]
	}
	return outcomes["the right role, by token"]
}

// callers returns one caller for every kind of credential.
func (s *secured) callers(t *testing.T) []caller {
	t.Helper()
	all := []caller{
		{name: "none", outcome: "none", client: s.client(t, security.ClientConfig{})},
		{name: "unknown token", outcome: "unknown token", client: s.withToken(t, "cellgate_unknown")},
		{name: "expired token", outcome: "expired token", client: s.withToken(t, s.expired)},
		{name: "foreign certificate", outcome: "certificate of another CA", client: s.withCertificate(t, s.foreign, time.Time{}, "cellgate://operator/mallory")},
		{name: "expired certificate", outcome: "expired certificate", client: s.withCertificate(t, s.ca, time.Now().Add(-time.Minute), "cellgate://operator/late")},
		{name: "certificate without a role", outcome: "certificate without a role", client: s.withCertificate(t, s.ca, time.Time{}, "https://example.org/x")},
	}
	for _, role := range security.Roles() {
		all = append(all,
			caller{name: string(role) + " by token", role: role, client: s.withToken(t, s.tokens[role])},
			caller{name: string(role) + " by certificate", role: role, client: s.withCertificate(t, s.ca, time.Time{}, "cellgate://"+string(role)+"/"+ownHost)})
	}
	return all
}

// Every method of every server, called with every credential, ends as docs/reference/security.md
// states.
func TestEveryMethodForEveryCredential(t *testing.T) {
	s := startSecured(t)
	roles := rolesOf(t)
	inGRPC, inREST := map[string]string{}, map[string]string{}
	codeOf := map[string]string{"401": unauthenticated, "403": denied}
	for _, cells := range documented(t, "outcomes") {
		inGRPC[cells[0]], inREST[cells[0]] = cells[1], cells[2]
		if word, ok := codeOf[cells[2]]; ok {
			inREST[cells[0]] = word
		}
	}
	served := map[string]bool{}
	n := 0
	for name, addr := range map[string]string{"gateway": s.grpc, "cell": s.cell} {
		reader := s.dial(t, addr, s.withToken(t, s.tokens[security.Reader]))
		methods := servedMethods(t, reader)
		for _, c := range s.callers(t) {
			conn := s.dial(t, addr, c.client)
			for _, method := range slices.Sorted(maps.Keys(methods)) {
				row, known := roles[method]
				if !known {
					t.Errorf("%s serves %s, which has no row in docs/reference/security.md", name, method)
					continue
				}
				served[method] = true
				want := c.expects(row, inGRPC)
				if got := outcomeOf(invoke(t, conn, method, methods[method])); got != want {
					t.Errorf("%s: %s by %s: %s, want %s", name, method, c.name, got, want)
				}
				n++
			}
			// A method that does not exist ends as one that nobody may call.
			want := c.expects([]security.Role{"nobody"}, inGRPC)
			err := conn.Invoke(t.Context(), "/cellgate.v1.Scheduler/NoSuchMethod", &cellgatev1.GetCellRequest{}, &cellgatev1.GetCellResponse{})
			if got := outcomeOf(err); got != want && status.Code(err) != codes.Unimplemented {
				t.Errorf("%s: an unknown method by %s: %s, want %s", name, c.name, got, want)
			}
		}
	}
	for _, c := range s.callers(t) {
		for call, rpc := range restCalls(t) {
			want := c.expects(roles[rpc], inREST)
			if rpc == "" {
				want = c.expects(roles[call], inREST)
			}
			served[call] = true
			if got := s.rest(t, s.http, c.client, call); got != want {
				t.Errorf("REST %s by %s: %s, want %s", call, c.name, got, want)
			}
			n++
		}
		// A cell's metrics and health have their own address.
		for _, call := range []string{"GET /metrics", "GET /healthz", "GET /readyz"} {
			want := c.expects(roles[call], inREST)
			if got := s.rest(t, s.cellHTTP, c.client, call); got != want {
				t.Errorf("a cell's %s by %s: %s, want %s", call, c.name, got, want)
			}
			n++
		}
	}
	for method := range roles {
		if !served[method] {
			t.Errorf("docs/reference/security.md has a row for %s, which nothing serves", method)
		}
	}
	t.Logf("%d calls", n)
}

// restCalls returns all calls of the REST API, with the RPC that each becomes, or "" for calls that
// only HTTP serves.
func restCalls(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for method := range rolesOf(t) {
		if strings.HasPrefix(method, "GET /") {
			out[method] = ""
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("cellgate.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			for k := range service.Methods().Len() {
				m := service.Methods().Get(k)
				rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
				for verb, path := range map[string]string{
					"GET": rule.GetGet(), "POST": rule.GetPost(), "PUT": rule.GetPut(), "PATCH": rule.GetPatch(), "DELETE": rule.GetDelete(),
				} {
					if path != "" {
						path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, viaREST)
						out[verb+" "+path] = string(service.FullName()) + "/" + string(m.Name())
					}
				}
			}
		}
		return true
	})
	if len(out) < 12 {
		t.Fatalf("%d REST calls only: %v", len(out), out)
	}
	return out
}

// invoke calls a method with an empty message, or for an agent's method with the state of its own
// host.
func invoke(t *testing.T, conn *grpc.ClientConn, method string, d protoreflect.MethodDescriptor) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	var in proto.Message = dynamicpb.NewMessage(d.Input())
	if method == "cellgate.agent.v1.HostReports/Report" {
		in = stateOf(ownHost, 0)
	}
	out := dynamicpb.NewMessage(d.Output())
	if !d.IsStreamingClient() && !d.IsStreamingServer() {
		return conn.Invoke(ctx, "/"+method, in, out)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(in); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(out); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// stateOf is the state of simulated host n of cell1 under another name.
func stateOf(serviceHost string, n int) *agentv1.ReportRequest {
	state := agent.Simulate(1, "cell1", n)
	state.BootId, state.Version, state.ServiceHost = "00000000-0000-4000-8000-000000000001", 1, serviceHost
	return &agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: state}}
}

func outcomeOf(err error) string {
	switch status.Code(err) {
	case codes.Unauthenticated:
		return unauthenticated
	case codes.PermissionDenied:
		return denied
	case codes.Unavailable:
		return noConnection
	}
	return allowed
}

// rest makes an HTTP call with an empty body to a server at an address.
func (s *secured) rest(t *testing.T, at string, c *security.Client, call string) string {
	t.Helper()
	verb, path, _ := strings.Cut(call, " ")
	req, err := http.NewRequestWithContext(t.Context(), verb, "https://"+at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.webs[c] == nil { // a handshake for each call would take most of the test's time
		s.webs[c] = c.Transport()
		t.Cleanup((&http.Client{Transport: s.webs[c]}).CloseIdleConnections)
	}
	resp, err := s.webs[c].RoundTrip(req)
	if err != nil {
		return noConnection
	}
	read := io.Reader(resp.Body)
	if resp.Header.Get("Content-Type") == "text/event-stream" { // the stream does not end
		read = io.LimitReader(resp.Body, 1)
	}
	text, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	challenge := resp.Header.Get("WWW-Authenticate")
	if (resp.StatusCode == http.StatusUnauthorized) != (challenge == `Bearer realm="cellgate"`) {
		t.Errorf("%s: %d with WWW-Authenticate %q", call, resp.StatusCode, challenge)
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		if !strings.Contains(string(text), `"reason":"UNAUTHENTICATED"`) {
			t.Errorf("%s: %s", call, text)
		}
		return unauthenticated
	case http.StatusForbidden:
		if !strings.Contains(string(text), `"reason":"PERMISSION_DENIED"`) {
			t.Errorf("%s: %s", call, text)
		}
		if strings.Contains(string(text), "may not call GET .") {
			t.Errorf("%s: a path that nobody can read: %s", call, text)
		}
		return denied
	}
	return allowed
}

// dial connects as the client does, with statuses as they are on the wire.
func (s *secured) dial(t *testing.T, addr string, c *security.Client) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, c.Options()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

var silent = slog.New(slog.DiscardHandler)
