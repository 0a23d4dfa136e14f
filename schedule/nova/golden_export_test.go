package nova

import (
	"testing"
	"time"

	"cellgate/schedule"
)

// What tests outside of the package have of the golden harness.

// GoldenFile is the bundled file of cases.
const GoldenFile = bundledGolden

// GoldenCase is a case.
type GoldenCase = goldenCase

// LoadGoldenCases reads the bundled cases. Their exceptions are compared by class: hosts
// out of databases are in another order, so another one may be the first that raises.
func LoadGoldenCases(t *testing.T) []*GoldenCase {
	t.Helper()
	return reworded(loadCases(t, bundledGolden))
}

// Time is the case's clock.
func (c *goldenCase) Time() time.Time { return time.Time(c.Now) }

// Searched reports whether Nova loads hosts of the cell.
func (c *goldenCase) Searched(cell string) bool { return c.searched(cell) }

// GoldenOptions are the options of a case that bear on its rows; 0 is not set.
type GoldenOptions struct {
	CPU, RAM, Disk, InitialCPU, InitialRAM, InitialDisk float64
	ServiceDownTime                                     time.Duration
}

// RowOptions gives them, with the defaults of the cases' release.
func (c *goldenCase) RowOptions() GoldenOptions {
	d := &c.Config.Default
	return GoldenOptions{
		d.CPURatio, d.RAMRatio, d.DiskRatio,
		value(d.InitialCPURatio, initialCPURatio), value(d.InitialRAMRatio, initialRAMRatio), value(d.InitialDiskRatio, 1),
		time.Duration(value(d.ServiceDownTime, 60) * float64(time.Second)),
	}
}

// SetHosts has the case go on with these hosts, in this order, and the instances on
// them.
func (c *goldenCase) SetHosts(hosts []schedule.Host, instances map[schedule.ID][]schedule.ID) {
	c.replaced = []goldenHost{}
	for _, h := range hosts {
		c.replaced = append(c.replaced, goldenHost{Host: h, key: c.key(h.ServiceHost, h.NodeName), instances: instances[h.UUID]})
	}
}

// GoldenCell answers queries for the hosts of a case that are in a cell.
type GoldenCell func(*schedule.Query) (*schedule.Proposal, error)

// SetCells has cells answer for the hosts of the case.
func (c *goldenCase) SetCells(cells []GoldenCell) { c.cells = cells }

// RunGolden runs cases as TestGolden does, and single picks and sequences over one
// split each; it gives what was compared, in words.
func RunGolden(t *testing.T, cases []*GoldenCase) string {
	t.Helper()
	all := goldenScores(t, cases)
	all.settle(t)
	picks := replayCases(t, cases, 1)
	return all.String() + picks.String()
}
