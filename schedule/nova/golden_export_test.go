package nova

import (
	"testing"
	"time"

	"cellgate/schedule"
)

// The parts of the golden harness that tests outside of the package use.

// GoldenFile is the bundled file of cases.
const GoldenFile = bundledGolden

// GoldenCase is a line of the golden file.
type GoldenCase = goldenCase

// LoadGoldenCases reads the bundled cases. Their exceptions are compared by class: databases give
// hosts in another order, so another host may raise first.
func LoadGoldenCases(t *testing.T) []*GoldenCase {
	t.Helper()
	return reworded(loadCases(t, bundledGolden))
}

// Time is the time at which Nova answered the case.
func (c *goldenCase) Time() time.Time { return time.Time(c.Now) }

// Searched reports whether Nova loads hosts of the cell.
func (c *goldenCase) Searched(cell string) bool { return c.searched(cell) }

// GoldenOptions are the options of a case that affect its rows; a ratio of 0 is not set.
type GoldenOptions struct {
	CPU, RAM, Disk, InitialCPU, InitialRAM, InitialDisk float64
	ServiceDownTime                                     time.Duration
}

// RowOptions gives the case's GoldenOptions, with the defaults of its release.
func (c *goldenCase) RowOptions() GoldenOptions {
	d := &c.Config.Default
	return GoldenOptions{
		d.CPURatio, d.RAMRatio, d.DiskRatio,
		value(d.InitialCPURatio, initialCPURatio), value(d.InitialRAMRatio, initialRAMRatio), value(d.InitialDiskRatio, 1),
		time.Duration(value(d.ServiceDownTime, 60) * float64(time.Second)),
	}
}

// SetHosts replaces the hosts of the case, in this order, and their instances.
func (c *goldenCase) SetHosts(hosts []schedule.Host, instances map[schedule.ID][]schedule.ID) {
	c.replaced = []goldenHost{}
	for _, h := range hosts {
		c.replaced = append(c.replaced, goldenHost{Host: h, key: c.key(h.ServiceHost, h.NodeName), instances: instances[h.UUID]})
	}
}

// GoldenCell answers queries for the hosts of a case that are in a cell.
type GoldenCell func(*schedule.Query) (*schedule.Proposal, error)

// SetCells makes cells answer for the hosts of the case.
func (c *goldenCase) SetCells(cells []GoldenCell) { c.cells = cells }

// RunGolden compares cases as TestGolden does, with picks over one split each. It returns a text of
// what was compared.
func RunGolden(t *testing.T, cases []*GoldenCase) string {
	t.Helper()
	all := goldenScores(t, cases)
	all.settle(t)
	picks := replayCases(t, cases, 1)
	return all.String() + picks.String()
}
