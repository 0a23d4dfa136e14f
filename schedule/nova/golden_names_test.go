package nova

import (
	"slices"
	"strings"
	"testing"

	"cellgate/schedule"
)

// A case disagrees if an exception has another message, whatever its file and stage.
func TestOtherWordsOfAnExceptionDisagree(t *testing.T) {
	stages := map[string]int{}
	for _, c := range loadCases(t, bentGolden) {
		var stage string
		for f, e := range c.Expected.PerFilterError {
			stage, e.Message = "alone", "other words"
			c.Expected.PerFilterError[f] = e
		}
		if e := c.Expected.Error; e != nil {
			stage, e.Message = e.Stage, "other words"
		}
		if stage == "" {
			continue
		}
		stages[stage]++
		g := goldenRun{T: t, c: c, all: scores{}}
		if err := g.run(); err == nil || !strings.Contains(err.Error(), "other words") {
			t.Errorf("%s, %s: %v", c.ID, stage, err)
		}
	}
	for _, stage := range []string{"alone", schedule.StageHostStates, schedule.StageFilter, schedule.StageWeigh} {
		if stages[stage] == 0 {
			t.Errorf("no case raises at %s: %v", stage, stages)
		}
	}
}

// A case disagrees, with the name in the error, if it names something unknown or lacks an answer. A
// file of another release would otherwise agree because parts were not compared.
func TestCasesOfUnknownNamesDisagree(t *testing.T) {
	lines := linesOf(t, bundledGolden)
	ranked := slices.IndexFunc(lines, func(line []byte) bool {
		c, err := parseCase(line)
		return err == nil && len(c.Expected.Weighed) > 1 && c.Expected.Error == nil && slices.Contains(c.Config.Weighers, schedule.RAMWeigher)
	})
	for want, bend := range map[string]func(*goldenCase){
		"":                               func(*goldenCase) {},
		"there is no filter NoFilter":    func(c *goldenCase) { c.Config.EnabledFilters = append(c.Config.EnabledFilters, "NoFilter") },
		"there is no filter YesFilter":   func(c *goldenCase) { c.Expected.PerFilter["YesFilter"] = nil },
		"there is no weigher NoWeigher":  func(c *goldenCase) { c.Config.Weighers = append(c.Config.Weighers, "NoWeigher") },
		"there is no weigher RawWeigher": func(c *goldenCase) { c.Expected.Weighed[0].Raw["RawWeigher"] = 1 },
		"there is no option max_hosts": func(c *goldenCase) {
			if err := c.Config.UnmarshalJSON([]byte(`{"max_io_ops_per_host": 8, "max_hosts": 2}`)); err != nil {
				t.Fatal(err)
			}
		},
		"there is no option metrics.weight_settings": func(c *goldenCase) {
			if err := c.Config.UnmarshalJSON([]byte(`{"metrics": {"required": false, "weight_settings": ["cpu.percent=1"]}}`)); err != nil {
				t.Fatal(err)
			}
		},
		"there is no option DEFAULT.default_zone": func(c *goldenCase) {
			if err := c.Config.UnmarshalJSON([]byte(`{"DEFAULT": {"default_zone": "nova"}}`)); err != nil {
				t.Fatal(err)
			}
		},
		"the case has no weighed":       func(c *goldenCase) { c.Expected.Weighed = nil },
		"weighed has 1 hosts, want the": func(c *goldenCase) { c.Expected.Weighed = c.Expected.Weighed[:1] },
		"weighed does not have":         func(c *goldenCase) { c.Expected.Weighed[0].Host = "no-such-host" },
		"RAMWeigher: ":                  func(c *goldenCase) { delete(c.Expected.Weighed[1].Raw, schedule.RAMWeigher) },
	} {
		c, err := parseCase(lines[ranked])
		if err != nil {
			t.Fatal(err)
		}
		bend(c)
		g := goldenRun{T: t, c: c, all: scores{}}
		err = g.run()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
