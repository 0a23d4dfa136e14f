package norace

import (
	"flag"
	"testing"
)

// failing records how a test ends.
type failing struct {
	testing.TB
	failed, skipped bool
}

func (f *failing) Helper()      {}
func (f *failing) Fatal(...any) { f.failed = true }
func (f *failing) Skip(...any)  { f.skipped = true }

func TestOnlyWhatIsNamedIsSkipped(t *testing.T) {
	t.Setenv(Ran, "")
	defer LeaveOut()
	for _, named := range []bool{true, false} {
		LeaveOut("TestOther")
		if named {
			LeaveOut("TestOther", t.Name())
		}
		f := &failing{TB: t}
		Skip(f, Pure)
		if f.failed == named || f.skipped != On {
			t.Errorf("named %v: failed %v, skipped %v", named, f.failed, f.skipped)
		}
	}
}

func TestWhatWasLeftOutIsChosen(t *testing.T) {
	run := flag.Lookup("test.run")
	before := run.Value.String()
	defer func() {
		LeaveOut()
		if err := run.Value.Set(before); err != nil {
			t.Error(err)
		}
	}()
	for ran, want := range map[string]string{"": before, "1": "^(TestA|TestB)$"} {
		if On {
			want = before // all tests must run
		}
		t.Setenv(Ran, ran)
		LeaveOut("TestA", "TestB")
		if got := run.Value.String(); got != want {
			t.Errorf("%s=%q: -run is %q, want %q", Ran, ran, got, want)
		}
		if err := run.Value.Set(before); err != nil {
			t.Fatal(err)
		}
	}
}
