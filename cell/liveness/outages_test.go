package liveness

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestOutages_SeveralHosts_AreLoggedTogether(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(60*time.Second, func() time.Time { return now })
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	imported := map[string]bool{}
	o := NewOutageLog(l, func(uuid string) string { return "host-" + uuid }, func(uuid string) bool { return imported[uuid] }, func() bool { return false }, log)
	// after lets time pass, hears some hosts, and checks the logged lines.
	after := func(d time.Duration, seen []string, want ...string) {
		t.Helper()
		now = now.Add(d)
		for _, h := range seen {
			l.NoteSeen(h)
		}
		l.Check()
		o.LogChanges(t.Context())
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if out.Len() == 0 {
			got = nil
		}
		out.Reset()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	hosts := []string{"1", "2", "3", "4", "5", "6"}
	for _, h := range hosts {
		l.NoteRow(h, false)
	}
	after(0, nil)
	after(59*time.Second, []string{"6"})
	after(time.Second, nil,
		`level=WARN msg="hosts went down" went_down=5 came_back=0 up=1 hosts=6 names="host-1, host-2, host-3, and 2 more"`)
	// Within ten seconds nothing is logged. Afterwards the remaining changes are.
	after(time.Second, []string{"1"})
	after(8*time.Second, []string{"1", "2", "6"})
	after(time.Second, nil,
		`level=INFO msg="hosts came back" went_down=0 came_back=2 up=3 hosts=6 names="host-1, host-2"`)
	after(50*time.Second, []string{"1"})
	after(9*time.Second, []string{"3"},
		`level=WARN msg="hosts went down" went_down=2 came_back=1 up=2 hosts=6 names="host-2, host-6"`)
	after(60*time.Second, nil,
		`level=ERROR msg="no host of the cell is up: nothing can be placed in it until agents report again" went_down=2 came_back=0 up=0 hosts=6 names="host-1, host-3"`)
	after(time.Hour, nil)
	after(0, hosts,
		`level=INFO msg="hosts came back" went_down=0 came_back=6 up=6 hosts=6 names="host-1, host-2, host-3, and 3 more"`)
	// Imported hosts are always silent, so nothing is logged about them. Hosts that become imported
	// did not come back.
	for _, h := range hosts[:4] {
		imported[h] = true
	}
	after(10*time.Minute, []string{"5"},
		`level=WARN msg="hosts went down" went_down=1 came_back=0 up=1 hosts=2 names=host-6`)
	imported["6"] = true
	after(time.Minute, []string{"5"})
	after(2*time.Minute, nil,
		`level=ERROR msg="no host of the cell is up: nothing can be placed in it until agents report again" went_down=1 came_back=0 up=0 hosts=1 names=host-5`)
	imported["5"] = true
	after(time.Hour, nil)
}
