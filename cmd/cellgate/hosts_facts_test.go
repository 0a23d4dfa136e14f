package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestFactsAreReadFromAFileOrStandardInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "facts.json")
	if err := os.WriteFile(file, []byte(`{"free_gb": 800}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, "-"} {
		got, err := readFacts(name, strings.NewReader(`{"free_gb": 800}`))
		if err != nil || got.AsMap()["free_gb"] != 800.0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, text := range []string{"", "[]", "{", "{} x"} {
		if got, err := readFacts("-", strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestFactsAreShownByNamespace(t *testing.T) {
	cinder, _ := structpb.NewStruct(map[string]any{"free_gb": 800.0})
	h := &cellgatev1.Host{ServiceHost: "compute-1", Namespaces: []*cellgatev1.HostNamespace{
		{Name: "cinder", Facts: cinder, Generation: 7}, {Name: "rack", Facts: &structpb.Struct{}, ByAgent: true},
	}}
	for only, want := range map[string]string{
		"":        "cinder (generation 7)\n{\n  \"free_gb\": 800\n}\nrack (by its agent)\n{}\n",
		"rack":    "rack (by its agent)\n{}\n",
		"neutron": "host compute-1 has no namespace neutron\n",
	} {
		var out page
		if showFacts(&out, h, only); out.String() != want {
			t.Errorf("%q: %q; want %q", only, out.String(), want)
		}
	}
}

func TestWrongUseOfHostsFacts(t *testing.T) {
	for _, args := range [][]string{
		{"hosts", "facts"},
		{"hosts", "facts", "h", "--put", "-"},
		{"hosts", "facts", "h", "n", "--put", "-", "--delete"},
		{"hosts", "facts", "h", "n", "--if-generation", "3"},
		{"hosts", "facts", "h", "n", "--put", "/nowhere/at/all"},
	} {
		if _, stderr, status := typed(t.Context(), "", args...); status != exitUsage || stderr == "" {
			t.Errorf("%v: status %d, %q", args, status, stderr)
		}
	}
}
