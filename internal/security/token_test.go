package security

import (
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/security/testca"
)

const sum1 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestNewTokenIsKnownByItsLine(t *testing.T) {
	end := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	id := Identity{Role: Agent, Name: `rack "12", {x}: é`, Hosts: []string{"rack12-h01", "rack13-*"}, Expires: end}
	secret, line, err := NewToken(id)
	if err != nil || !strings.HasPrefix(secret, "cellgate_") || len(secret) != 9+43 || strings.Contains(line, secret) || strings.Count(line, "\n") != 1 {
		t.Fatalf("%q, %q, %v", secret, line, err)
	}
	other, more, err := NewToken(Identity{Role: Reader, Name: "dashboard"})
	if err != nil || other == secret {
		t.Fatal(other, err)
	}
	known, err := parseTokens([][]byte{[]byte("# those known\n" + line + more)})
	if err != nil {
		t.Fatalf("%v in\n%s", err, line)
	}
	got := (*known)[sha256.Sum256([]byte(secret))]
	if len(*known) != 2 || got == nil || !got.same(&id) || !got.Expires.Equal(end) {
		t.Errorf("%+v of %s", got, line)
	}
}

func TestTokensFileIsRefusedByWhatIsWrong(t *testing.T) {
	good := "- {sha256: " + sum1 + ", role: reader, name: a}\n"
	for text, want := range map[string]string{
		"":                         "",
		good:                       "",
		good + good:                `token 2 ("a"): the same token is there twice`,
		"- {sha256: " + sum1 + "}": "name must be set",
		"- {sha256: " + sum1 + "a, role: reader, name: a}":                      "sha256 is not 64 hexadecimal digits",
		"- {sha256: " + sum1[1:] + "x, role: reader, name: a}":                  "sha256 is not 64 hexadecimal digits",
		"- {sha256: '', role: reader, name: a}":                                 "sha256 is not 64 hexadecimal digits",
		"- {sha256: " + sum1 + ", role: root, name: a}":                         `role "root" is none of`,
		"- {sha256: " + sum1 + ", role: agent, name: a}":                        "an agent needs the service hosts",
		"- {sha256: " + sum1 + ", role: agent, name: a, hosts: ['*']}":          "does not speak for every host",
		"- {sha256: " + sum1 + ", role: agent, name: a, hosts: ['a*b']}":        `a "*" may only end it`,
		"- {sha256: " + sum1 + ", role: reader, name: a, hosts: [h]}":           "hosts are for the role agent only",
		"- {sha256: " + sum1 + ", role: reader, name: a, expires: soon}":        "expires is not a time",
		"- {sha256: " + sum1 + ", role: reader, name: a, token: b}":             "field token not found",
		"- {role: reader, name: a}\n- {sha256: " + sum1 + ", role: x, name: b}": `token 1 ("a"): sha256`,
		"a: b":                "cannot unmarshal",
		good + "---\n" + good: "more than one YAML document",
	} {
		_, err := parseTokens([][]byte{[]byte(text)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAnAgentSpeaksForItsHostsOnly(t *testing.T) {
	id := &Identity{Role: Agent, Hosts: []string{"a", "rack1-*"}}
	for host, want := range map[string]bool{"a": true, "A": false, "ab": false, "": false, "rack1-": true, "rack1-h7": true, "rack10-h7": false, "*": false} {
		if id.SpeaksFor(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
		ctx := With(t.Context(), id)
		if (MayReport(ctx, host) == nil) != want {
			t.Errorf("MayReport of %q: %v", host, MayReport(ctx, host))
		}
	}
	if (&Identity{Role: Operator, Hosts: []string{"a"}}).SpeaksFor("a") {
		t.Error("an operator speaks for a host")
	}
	if MayReport(t.Context(), "a") != nil {
		t.Error("refused where nobody must say who they are")
	}
}

func TestSecretFileHoldsOneToken(t *testing.T) {
	for text, ok := range map[string]bool{"x\n": true, " x ": true, "": false, "\n": false, "a b": false, "a\nb": false, "a\x00": false, strings.Repeat("x", 5000): false} {
		if _, err := parseSecret([][]byte{[]byte(text)}); (err == nil) != ok {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestAccessNamesRolesThereAre(t *testing.T) {
	for method, roles := range Access() {
		for _, role := range roles {
			if (&Identity{Role: role, Hosts: map[bool][]string{true: {"h"}}[role == Agent]}).check() != "" {
				t.Errorf("%s: role %q", method, role)
			}
			if !may(role, method) {
				t.Errorf("%s may not call %s", role, method)
			}
		}
	}
	for _, role := range Roles() {
		if may(role, "cellgate.v1.Scheduler/Unknown") || may(role, "") {
			t.Errorf("%s may call what has no row", role)
		}
	}
	if open("nothing/Known") {
		t.Error("what has no row is open")
	}
}

// A caller of a long answer is judged again, by the tokens of then.
func TestStillAdmitted_TokenIsRemoved_Refused(t *testing.T) {
	secret, line, err := NewToken(Identity{Role: Reader, Name: "dashboard"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := testca.Put(dir, "tokens", []byte(line))
	s, err := NewServer(ServerConfig{Tokens: file}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := StillAdmitted(r); err != nil {
			t.Errorf("with the token: %v", err)
		}
		testca.Put(dir, "tokens", nil)
		s.tokens.poll(s.log)
		if err := StillAdmitted(r); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("without the token: %v", err)
		}
	}), func(_ http.ResponseWriter, err error) { t.Error(err) })
	r := httptest.NewRequest(http.MethodGet, "/v1/events", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if err := StillAdmitted(r); err != nil {
		t.Errorf("a request that passed no server: %v", err)
	}
}
