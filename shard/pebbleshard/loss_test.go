package pebbleshard

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// lossDir is the directory of the stores in these tests.
const lossDir = "/shard"

// confirmed makes a store with n confirmed claims that was killed after the last acknowledgement.
// Some claims are in tables, the others in the log. The store was opened twice before.
func confirmed(t *testing.T, n int) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	clock := newTestClock()
	made := 0
	for _, upTo := range []int{n / 4, n / 2, n} {
		s := openAt(t, fs, lossDir, clock)
		l, err := s.OpenLane(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if made == 0 {
			if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, int64(n))}}); err != nil {
				t.Fatal(err)
			}
		}
		for ; made < upTo; made++ {
			a, err := l.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(made, 1, 1)}, {Confirm: shardtest.Ref(made)}})
			if err != nil || a.Outcomes[0].Refusal != nil || a.Outcomes[1].Refusal != nil {
				t.Fatalf("claim %d: %+v, %v", made, a.Outcomes, err)
			}
			if made == upTo-n/8 {
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if upTo == n {
			left := kill(fs)
			mustClose(t, s)
			return left
		}
		mustClose(t, s)
	}
	return nil
}

// kill gives the files that a killed process leaves: all that it wrote.
func kill(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// filesOf lists the files of a store and of Pebble in it.
func filesOf(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{lossDir, path.Join(lossDir, pebbleDir)} {
		names, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if info, err := fs.Stat(path.Join(dir, n)); err != nil {
				t.Fatal(err)
			} else if !info.IsDir() {
				all = append(all, path.Join(dir, n))
			}
		}
	}
	slices.Sort(all)
	return all
}

func readAll(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

func replace(t *testing.T, fs vfs.FS, name string, text []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 0 {
		_, err = f.Write(slices.Clone(text))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// allOrRefused opens a store. Either the store has n confirmed claims, or Open names the directory
// and a remedy in the error that allOrRefused returns.
func allOrRefused(t *testing.T, fs vfs.FS, n int, what string) (refusal error) {
	t.Helper()
	opts := testOptions
	opts.Clock, opts.Log = newTestClock().read, slog.New(slog.DiscardHandler)
	s, err := open(fs, lossDir, opts)
	if err != nil {
		if !strings.Contains(err.Error(), lossDir) || !strings.Contains(err.Error(), "bring ") && !strings.Contains(err.Error(), "; give ") {
			t.Errorf("%s: the refusal names no directory or no remedy: %v", what, err)
		}
		return err
	}
	defer func() { _ = s.Close() }() // Close returns damage that is found later
	have := 0
	for _, c := range s.rows.claims {
		if c.State == shard.Confirmed {
			have++
		}
	}
	if have != n {
		t.Errorf("%s: the store opens with %d of %d confirmed claims", what, have, n)
	}
	return nil
}

// sampled is how many places of a file are damaged: all in long runs, else a quarter.
func sampled(all int) int {
	if testlong.On() {
		return all
	}
	return all / 4
}

// TestOpen_OneByteInverted_HasAllClaimsOrIsRefused inverts a byte of each file of a
// store: at every offset of the small ones, and at random ones of the others.
func TestOpen_OneByteInverted_HasAllClaimsOrIsRefused(t *testing.T) {
	norace.Skip(t, manyOpens)
	const claims = 240
	samples := sampled(120)
	whole := confirmed(t, claims)
	if err := allOrRefused(t, kill(whole), claims, "the whole store"); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 3))
	for _, name := range filesOf(t, whole) {
		text := readAll(t, whole, name)
		var at []int
		used := len(strings.TrimRight(string(text), "\x00")) // a log is preallocated with zeros
		for i := range used {
			if used <= 2*samples || rng.IntN(used) < samples {
				at = append(at, i)
			}
		}
		refused, named := 0, 0
		for _, i := range at {
			fs := kill(whole)
			spoilt := slices.Clone(text)
			spoilt[i] ^= 0xff
			replace(t, fs, name, spoilt)
			err := allOrRefused(t, fs, claims, fmt.Sprintf("byte %d of %d of %s inverted", i, used, name))
			if err != nil {
				refused++
			}
			if err != nil && strings.Contains(err.Error(), path.Base(name)) {
				named++
			}
		}
		t.Logf("%-50s %7d bytes: %4d of %4d refused, %4d by the file's name", name, used, refused, len(at), named)
		if ext := path.Ext(name); (ext == ".log" || ext == ".sst") && named != refused {
			t.Errorf("%s is not named in %d of %d refusals", name, refused-named, refused)
		}
	}
}

// TestOpen_AFileCutShort_HasAllClaimsOrIsRefused cuts each file of a store.
func TestOpen_AFileCutShort_HasAllClaimsOrIsRefused(t *testing.T) {
	norace.Skip(t, manyOpens)
	const claims = 240
	samples := sampled(40)
	whole := confirmed(t, claims)
	rng := rand.New(rand.NewPCG(3, 3))
	for _, name := range filesOf(t, whole) {
		text := readAll(t, whole, name)
		used := len(strings.TrimRight(string(text), "\x00"))
		for range samples {
			i := rng.IntN(used + 1)
			fs := kill(whole)
			replace(t, fs, name, text[:i])
			_ = allOrRefused(t, fs, claims, fmt.Sprintf("%s cut to %d of %d bytes", name, i, used))
		}
	}
}

// TestOpen_FilesDeleted_HasAllClaimsOrIsRefused deletes every set of one or two files
// of a store, and all of Pebble's.
func TestOpen_FilesDeleted_HasAllClaimsOrIsRefused(t *testing.T) {
	const claims = 240
	whole := confirmed(t, claims)
	names := filesOf(t, whole)
	var inside []string
	for i, a := range names {
		if path.Base(path.Dir(a)) == pebbleDir {
			inside = append(inside, a)
		}
		for _, b := range names[i:] {
			deleted(t, whole, claims, slices.Compact([]string{a, b}))
		}
	}
	if deleted(t, whole, claims, inside) == nil {
		t.Errorf("a store without any file in %s opens", pebbleDir)
	}
}

func deleted(t *testing.T, whole *vfs.MemFS, claims int, names []string) (refusal error) {
	t.Helper()
	fs := kill(whole)
	for _, n := range names {
		if err := fs.Remove(n); err != nil {
			t.Fatal(err)
		}
	}
	return allOrRefused(t, fs, claims, fmt.Sprintf("%s deleted", names))
}

// TestOpen_WithoutRights_NamesNoDamage: the files are whole, so nothing must be brought back or given up. A copy that was
// brought back by another user looks so.
func TestOpen_WithoutRights_NamesNoDamage(t *testing.T) {
	const claims = 16
	fs := confirmed(t, claims)
	for _, file := range []string{".sst", ".log", "MANIFEST", markFile} {
		forbidden := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpOpen && strings.Contains(path.Base(op.Path), file) {
				return &os.PathError{Op: "open", Path: op.Path, Err: syscall.EACCES}
			}
			return nil
		})
		opts := testOptions
		opts.Log = slog.New(slog.DiscardHandler)
		_, err := open(errorfs.Wrap(fs, forbidden), lossDir, opts)
		if err == nil {
			t.Fatalf("%s: it opens", file)
		}
		if text := err.Error(); !strings.Contains(text, syscall.EACCES.Error()) || strings.Contains(text, "bring back") || strings.Contains(text, acceptLoss) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := allOrRefused(t, fs, claims, "with rights"); err != nil {
		t.Error(err)
	}
}

// TestOpen_DiskFull_IsRefused: Pebble would try to flush its log without end.
func TestOpen_DiskFull_IsRefused(t *testing.T) {
	const claims = 16
	fs := confirmed(t, claims)
	for free, refused := range map[uint64]bool{0: true, leastRoom - 1: true, leastRoom: false} {
		err := allOrRefused(t, filling{fs, free}, claims, fmt.Sprintf("%d bytes are free", free))
		if (err != nil) != refused || refused && (!strings.Contains(err.Error(), "give it room") || strings.Contains(err.Error(), acceptLoss)) {
			t.Errorf("%d bytes are free: %v", free, err)
		}
	}
}

// filling is a file system with this many free bytes.
type filling struct {
	vfs.FS
	free uint64
}

func (f filling) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: f.free}, nil
}
