package hostprobe

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/agent"
	"cellgate/internal/config"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// machine is a tree that a test changes while a probe reads it.
type machine struct {
	mu    sync.Mutex
	files fstest.MapFS
	disk  int64
	fail  error
	reads int
}

func (m *machine) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *machine) read(s *Settings) (*Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.fail != nil {
		return nil, m.fail
	}
	r := Reader{FS: m.files, Arch: "x86_64", PageKB: 4, Disk: func(string) (int64, error) { return m.disk, nil }}
	return r.Read(s)
}

// probing runs a probe of a machine until the test's bubble ends.
func probing(t *testing.T, m *machine, cfg Config, tel telemetry.Agent) (*Probe, *agent.Host, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	p, err := New(hostUUID, cfg, Deps{Read: m.read, Log: slog.New(slog.NewTextHandler(&log, nil)), Telemetry: tel})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p, p.Hosts()[0], &log
}

func version(h *agent.Host) (*agentv1.FullState, uint64) {
	s, _ := h.State()
	return s, s.GetVersion()
}

// after waits for so many reads.
func after(reads int) {
	time.Sleep(time.Duration(reads) * 10 * time.Second)
	synctest.Wait()
}

func TestProbeReportsWhatChangesAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{files: tree(t, "one-node"), disk: 100 << 30}
		_, host, _ := probing(t, m, Config{Settings: plain(), Every: 10 * time.Second}, telemetry.Agent{})
		first, _ := version(host)
		after(5)
		if s, v := version(host); v != 1 || s != first {
			t.Errorf("version %d after five reads of the same", v)
		}
		m.change(func() {
			if m.reads != 6 {
				t.Errorf("%d reads, want the first and one each 10 s", m.reads)
			}
			m.disk = 200 << 30
		})
		after(1)
		if s, v := version(host); v != 2 || amount(s, "DISK_GB").GetTotal() != 200 || s.GetBootId() != first.GetBootId() {
			t.Errorf("version %d with %v after the disk grew", v, amount(s, "DISK_GB"))
		}
		m.change(func() {
			for name := range m.files {
				if strings.HasSuffix(name, "meminfo") {
					m.files[name].Data = bytes.ReplaceAll(m.files[name].Data, []byte("65701234"), []byte("98701234"))
				}
			}
		})
		after(1)
		if s, v := version(host); v != 3 || amount(s, "MEMORY_MB").GetTotal() != 96387 || cells(t, s)[0]["memory"] != 96387.0 {
			t.Errorf("version %d with %v after memory was plugged in", v, amount(s, "MEMORY_MB"))
		}
		after(3)
		if _, v := version(host); v != 3 {
			t.Errorf("version %d though nothing changed", v)
		}
	})
}

func TestProbeKeepsTheStateWhileItCannotRead(t *testing.T) {
	process, err := telemetry.New(telemetry.Traces{}, telemetry.Build{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		m := &machine{files: tree(t, "one-node"), disk: 100 << 30}
		p, host, log := probing(t, m, Config{Settings: plain(), Every: 10 * time.Second}, process.Agent("cell1"))
		before, _ := version(host)
		m.change(func() { m.fail = errors.New("the disk is gone") })
		after(4)
		if s, v := version(host); v != 1 || !proto.Equal(s, before) {
			t.Errorf("version %d while nothing could be read", v)
		}
		if p.age() != 40*time.Second {
			t.Errorf("last read %v ago, want 40 s", p.age())
		}
		m.change(func() { m.fail = errors.New("the disk is odd") })
		after(3)
		m.change(func() { m.fail = nil; m.disk = 50 << 30 })
		after(1)
		if s, v := version(host); v != 2 || amount(s, "DISK_GB").GetTotal() != 50 || p.age() != 0 {
			t.Errorf("version %d with %v after it came back, read %v ago", v, amount(s, "DISK_GB"), p.age())
		}
		text := log.String()
		for part, times := range map[string]int{"the disk is gone": 1, "the disk is odd": 1, "is read again": 1} {
			if strings.Count(text, part) != times {
				t.Errorf("%q is not logged %d times:\n%s", part, times, text)
			}
		}
	})
	families, err := process.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	failures := 0.0
	for _, f := range families {
		if f.GetName() == "cellgate_agent_read_failures_total" {
			failures = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if failures != 7 {
		t.Errorf("%v failures counted, want 7", failures)
	}
}

func TestProbeReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{files: tree(t, "one-node"), disk: 100 << 30}
		cfg := Config{Settings: plain(), Every: 10 * time.Second}
		p, host, log := probing(t, m, cfg, telemetry.Agent{})
		next := cfg
		next.Settings.Disabled, next.Settings.DisabledReason = true, "planned"
		p.Reload(next)
		synctest.Wait() // at once, not at the next read
		s, v := version(host)
		if v != 2 || !s.GetDisabled() || s.GetDisabledReason() != "planned" {
			t.Errorf("version %d: %v", v, s)
		}
		bad := next
		bad.Settings.ReservedMemoryMB = 1 << 30
		p.Reload(bad)
		after(2)
		if _, v := version(host); v != 2 || !strings.Contains(log.String(), "the former one stays") {
			t.Errorf("version %d after a configuration that does not fit:\n%s", v, log)
		}
		slow := cfg
		slow.Every = time.Hour
		slow.Instances = list{{UUID: first, Resources: map[string]int32{"VCPU": 2}}}
		p.Reload(bad)
		p.Reload(slow) // replaces the earlier reload, or follows it
		synctest.Wait()
		if s, v := version(host); v != 3 || s.GetDisabled() || len(s.GetInstances()) != 1 {
			t.Errorf("version %d: %v", v, s)
		}
		reads := m.reads
		after(5)
		if m.reads != reads {
			t.Errorf("%d reads in 50 s at one an hour", m.reads-reads)
		}
	})
}

func TestProbeNeedsToReadOnce(t *testing.T) {
	m := &machine{fail: errors.New("nothing here")}
	if _, err := New(hostUUID, Config{Settings: plain(), Every: time.Second}, Deps{Read: m.read}); err == nil || !strings.Contains(err.Error(), "nothing here") {
		t.Errorf("error %v", err)
	}
	s := plain()
	s.ServiceHost = strings.Repeat("x", 300)
	if _, err := report(t, tree(t, "one-node"), s); err == nil || !strings.Contains(err.Error(), "service_host") {
		t.Errorf("a state that no cell takes: %v", err)
	}
}

// The machine that the test runs on is read, whatever it is.
func TestThisMachine(t *testing.T) {
	r := ThisMachine()
	if !r.has("proc/cpuinfo") || !r.has("sys/devices/system/cpu/online") {
		t.Skip("this machine has no /proc or /sys of Linux")
	}
	s := plain()
	s.DiskPath, s.ReservedMemoryMB, s.PCIDevices = t.TempDir(), 1, []config.PCIDevice{{}}
	got, err := Read(hostUUID, Config{Settings: s}, r.Read)
	if err != nil {
		t.Fatal(err)
	}
	readable(t, got.State)
	for _, class := range []string{"VCPU", "MEMORY_MB", "DISK_GB"} {
		if amount(got.State, class).GetTotal() < 1 {
			t.Errorf("%s is %v", class, amount(got.State, class))
		}
	}
}
