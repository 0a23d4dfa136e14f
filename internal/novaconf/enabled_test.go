package novaconf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/novarelease"
)

// What a scheduler runs is what the newest name in the last file says, the old name
// whatever the release, else the release's default.
func TestEnabledFilters(t *testing.T) {
	for _, c := range []struct {
		files   []string
		release novarelease.Release
		want    []string
		from    string
		old     bool
	}{
		{files: []string{""}, release: 15, want: novarelease.Release(15).DefaultFilters()},
		{files: []string{""}, want: novarelease.Release(0).DefaultFilters()},
		{files: []string{"[DEFAULT]\nscheduler_default_filters = RamFilter, nova.scheduler.filters.core_filter.CoreFilter,"}, want: []string{"RamFilter", "CoreFilter"}, from: "0.conf:2", old: true},
		{files: []string{"[DEFAULT]\nscheduler_default_filters = RamFilter\n[filter_scheduler]\nenabled_filters = my.own.RamFilter"}, release: 15, want: []string{"my.own.RamFilter"}, from: "0.conf:4"},
		{files: []string{"[filter_scheduler]\nenabled_filters = DiskFilter", "[DEFAULT]\nscheduler_default_filters = RamFilter"}, release: 26, want: []string{"RamFilter"}, from: "1.conf:2", old: true},
	} {
		dir := t.TempDir()
		var files []string
		for i, text := range c.files {
			files = append(files, filepath.Join(dir, string(rune('0'+i))+".conf"))
			if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		e, err := EnabledFilters(files, c.release)
		if err != nil || !slices.Equal(e.Filters, c.want) || e.OldName != c.old || (e.From == "") != (c.from == "") || !strings.HasSuffix(e.From, c.from) {
			t.Errorf("%q with %s: %+v, %v", c.files, c.release, e, err)
		}
	}
	if _, err := EnabledFilters([]string{filepath.Join(t.TempDir(), "none.conf")}, 0); err == nil {
		t.Error("a file that is not there is no problem")
	}
}
