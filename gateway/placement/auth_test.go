package placement

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/fault"
)

// fakeKeystone knows tokens by roles; the gateway's own account is placement/secret.
type fakeKeystone struct {
	*httptest.Server
	mu sync.Mutex
	// tokens are the valid ones. own counts the tokens that the gateway got for itself, asked
	// the tokens that it had checked.
	tokens     map[string]fakeToken
	own, asked int
	down       bool
}

type fakeToken struct {
	project string
	roles   []string
	expires time.Time
}

func newFakeKeystone(t *testing.T) *fakeKeystone {
	k := &fakeKeystone{tokens: map[string]fakeToken{}}
	k.Server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	return k
}

func (k *fakeKeystone) serve(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.URL.Path != "/v3/auth/tokens" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.Method == http.MethodPost {
		text, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(text), `"password":"secret"`) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		k.own++
		own := fmt.Sprintf("own%d", k.own)
		k.tokens[own] = fakeToken{roles: []string{"service"}, expires: time.Now().Add(time.Hour)}
		w.Header().Set("X-Subject-Token", own)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token": {"expires_at": "%s", "catalog": [{"type": "identity", "endpoints": [{"interface": "public", "url": "http://not.reachable/v3"}]}]}}`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		return
	}
	if _, ok := k.tokens[r.Header.Get("X-Auth-Token")]; !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	k.asked++
	token, ok := k.tokens[r.Header.Get("X-Subject-Token")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	roles := []map[string]string{}
	for _, name := range token.roles {
		roles = append(roles, map[string]string{"name": name})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{
		"expires_at": token.expires.UTC().Format(time.RFC3339Nano), "user": map[string]string{"id": "u"},
		"project": map[string]string{"id": token.project}, "roles": roles,
	}})
}

func (k *fakeKeystone) set(token string, v fakeToken) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v.expires.IsZero() {
		v.expires = time.Now().Add(time.Hour)
	}
	k.tokens[token] = v
}

func (k *fakeKeystone) revoke(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.tokens, token)
}

func (k *fakeKeystone) config() Config {
	return Config{Keystone: KeystoneConfig{
		AuthURL: k.URL + "/v3", Username: "placement", Password: "secret", UserDomain: "Default", ProjectName: "service", ProjectDomain: "Default",
	}}
}

func serverOf(t *testing.T, cfg Config) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(New(cfg, Deps{Backend: newMemory(), Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)
	return s
}

func askAs(t *testing.T, s *httptest.Server, token, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("X-Auth-Token", token)
	}
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestAuth_KeystoneTokens_RolesDecide(t *testing.T) {
	k := newFakeKeystone(t)
	k.set("root", fakeToken{project: "p1", roles: []string{"admin", "member", "reader"}})
	k.set("nova", fakeToken{project: "service", roles: []string{"service"}})
	k.set("alice", fakeToken{project: "p1", roles: []string{"member", "reader"}})
	k.set("old", fakeToken{roles: []string{"admin"}, expires: time.Now().Add(-time.Minute)})
	s := serverOf(t, k.config())
	for _, c := range []struct {
		token, path string
		status      int
		want        string
	}{
		{"", "/", 200, "max_version"},
		{"", "/resource_providers", 401, "Unauthorized"},
		{"stolen", "/resource_providers", 401, "Unauthorized"},
		{"old", "/resource_providers", 401, "Unauthorized"},
		{"admin", "/resource_providers", 401, "Unauthorized"},
		{"root", "/resource_providers", 200, "resource_providers"},
		{"nova", "/resource_providers", 200, "resource_providers"},
		{"alice", "/resource_providers", 403, "Policy does not allow placement:resource_providers:list to be performed."},
		{"alice", "/usages?project_id=p1", 200, "usages"},
		{"alice", "/usages?project_id=p2", 403, "Policy does not allow placement:usages to be performed."},
		{"alice", "/usages?project_id=p2&project_id=p1", 200, "usages"},
		{"alice", "/usages", 403, "placement:usages"},
	} {
		if status, text := askAs(t, s, c.token, c.path); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%q asks %s: %d %s, want %d and %q", c.token, c.path, status, text, c.status, c.want)
		}
	}
	if k.own != 1 {
		t.Errorf("the gateway took %d tokens of its own, want 1", k.own)
	}
}

func TestAuth_ValidToken_IsAskedOnceUntilCacheEnds(t *testing.T) {
	k := newFakeKeystone(t)
	k.set("root", fakeToken{roles: []string{"admin"}})
	cfg := k.config()
	cached := serverOf(t, cfg)
	cfg.Keystone.CacheFor = time.Nanosecond
	uncached := serverOf(t, cfg)
	for range 3 {
		if status, text := askAs(t, cached, "root", "/resource_providers"); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	if k.asked != 1 {
		t.Errorf("Keystone was asked %d times, want 1", k.asked)
	}
	if status, text := askAs(t, uncached, "root", "/resource_providers"); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	k.revoke("root")
	if status, _ := askAs(t, uncached, "root", "/resource_providers"); status != 401 {
		t.Errorf("a revoked token gets %d once it is no longer remembered, want 401", status)
	}
	if status, _ := askAs(t, cached, "root", "/resource_providers"); status != 200 {
		t.Errorf("a revoked token gets %d while it is remembered, want 200", status)
	}
}

func TestAuth_OwnTokenRevoked_IsRenewed(t *testing.T) {
	k := newFakeKeystone(t)
	k.set("root", fakeToken{roles: []string{"admin"}})
	k.set("other", fakeToken{roles: []string{"admin"}})
	s := serverOf(t, k.config())
	if status, text := askAs(t, s, "root", "/resource_providers"); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	k.revoke("own1")
	if status, text := askAs(t, s, "other", "/resource_providers"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

func TestAuth_KeystoneDown_Is503(t *testing.T) {
	k := newFakeKeystone(t)
	k.down = true
	status, text := askAs(t, serverOf(t, k.config()), "root", "/resource_providers")
	if status != 503 || !strings.Contains(text, "Keystone") {
		t.Errorf("%d %s", status, text)
	}
}

func TestAuth_TrustedHeader_IsOfLoopbackOnly(t *testing.T) {
	h := testHandler(t, newMemory())
	for from, want := range map[string]int{"127.0.0.1:5": 200, "[::1]:5": 200, "192.0.2.1:5": 401, "": 401} {
		r := httptest.NewRequest(http.MethodGet, "/resource_providers", nil)
		r.RemoteAddr = from
		r.Header.Set("X-Auth-Token", "admin")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %q: %d, want %d", from, w.Code, want)
		}
	}
}

// Unknown tokens cost calls of Keystone, so only some are validated at once. Known ones are served meanwhile.
func TestKeystone_TooManyUnknownTokens_Refused(t *testing.T) {
	fake := newFakeKeystone(t)
	fake.set("known", fakeToken{roles: []string{"admin"}})
	fake.set("other", fakeToken{roles: []string{"admin"}})
	k := newKeystone(fake.config().Keystone, nil)
	k.cfg.CacheFor = time.Hour
	if _, err := k.validate(t.Context(), "known"); err != nil {
		t.Fatal(err)
	}
	for range cap(k.slots) {
		k.slots <- struct{}{}
	}
	if _, err := k.validate(t.Context(), "known"); err != nil {
		t.Errorf("a known token: %v", err)
	}
	_, err := k.validate(t.Context(), "other")
	if e := errorOf(err); fault.KindOf(err) != fault.Overloaded || e.status != http.StatusServiceUnavailable || e.retryAfter != 1 {
		t.Errorf("an unknown token: %v", err)
	}
	<-k.slots
	if _, err := k.validate(t.Context(), "other"); err != nil || len(k.slots) != cap(k.slots)-1 {
		t.Errorf("once there is room: %v, %d slots are taken", err, len(k.slots))
	}
}
