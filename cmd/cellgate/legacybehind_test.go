package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/legacy/importer"
)

// If an address leads alternately to a server that lags and to one that does not, that is logged
// once.
func TestImports_AddressOfTwoServers_IsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	logImport, at := logImports(slog.New(slog.NewTextHandler(&out, nil))), time.Now()
	logged := func(warned, ended int) {
		t.Helper()
		if w, e := strings.Count(out.String(), "a copy of Nova's database that is behind"), strings.Count(out.String(), "not behind any more"); w != warned || e != ended {
			t.Errorf("told %d times, and %d times of the end; want %d, %d", w, e, warned, ended)
		}
	}
	for i := range 100 {
		logImport(importer.Report{At: at.Add(time.Duration(i) * time.Second), Behind: time.Duration(i%2) * time.Second}, nil)
	}
	logged(1, 0)
	logImport(importer.Report{At: at.Add(158 * time.Second)}, nil)
	logged(1, 0)
	logImport(importer.Report{At: at.Add(159 * time.Second)}, nil)
	logged(1, 1)
	logImport(importer.Report{At: at.Add(160 * time.Second), Outdated: 1}, nil)
	logged(2, 1)
}
