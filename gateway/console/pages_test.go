package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func get(t *testing.T, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	pages, err := Pages()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	pages.ServeHTTP(rec, r)
	return rec
}

func TestPages_Root_BrowserGetsThePageOthersText(t *testing.T) {
	page := get(t, "/", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if kind := page.Header().Get("Content-Type"); kind != "text/html; charset=utf-8" || !strings.Contains(page.Body.String(), `src="/console.js"`) {
		t.Errorf("a browser gets %s: %s", kind, page.Body)
	}
	if p := page.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
		t.Errorf("policy %q", p)
	}
	text := get(t, "/", "Accept", "*/*").Body.String()
	for _, want := range []string{"/v1/", "/openapi.json", "/metrics", "/healthz"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %s: %s", want, text)
		}
	}
}

// The whole console stays small: these files are all that a browser loads.
func TestPages_AllFiles_Below300kBCompressed(t *testing.T) {
	sum := 0
	for _, path := range Paths {
		rec := get(t, path, "Accept", "text/html", "Accept-Encoding", "gzip, br")
		sum += rec.Body.Len()
		if rec.Code != http.StatusOK || rec.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %d, %s", path, rec.Code, rec.Header().Get("Content-Encoding"))
		}
		r, err := gzip.NewReader(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		zipped, err := io.ReadAll(r)
		plain := get(t, path, "Accept", "text/html")
		if err != nil || plain.Body.Len() == 0 || string(zipped) != plain.Body.String() {
			t.Errorf("%s: compressed and plain differ, %v", path, err)
		}
	}
	if sum > 300_000 {
		t.Errorf("%d bytes", sum)
	}
	t.Logf("%d bytes compressed", sum)
}

func TestPages_SameFileAgain_NotSent(t *testing.T) {
	tag := get(t, "/console.js").Header().Get("ETag")
	if rec := get(t, "/console.js", "If-None-Match", tag); rec.Code != http.StatusNotModified || rec.Body.Len() != 0 {
		t.Errorf("%d with %d bytes", rec.Code, rec.Body.Len())
	}
}

// The pages load nothing from another address: they work without a network.
func TestPages_Files_NameNoOtherSite(t *testing.T) {
	for _, path := range []string{"/", "/console.css"} {
		if text := get(t, path, "Accept", "text/html").Body.String(); strings.Contains(text, "https://") || strings.Contains(text, "//cdn") {
			t.Errorf("%s names another site", path)
		}
	}
}

// `make console` was run after the last change of console/, and dist/ holds what it wrote.
func TestDist_SumsOfSourcesAndFiles_AreThoseOfTheBuild(t *testing.T) {
	want, err := os.ReadFile("dist.sha256")
	if err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command("../../console/sums.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("gateway/console/dist is not of the sources in console/: run make console, and commit what it wrote")
	}
}
