package schedule

// What the tests together with schedule/merge use of this package's tests. They are in package schedule_test, because
// schedule/merge imports this package.
type (
	Scenario  = scenario
	NaivePick = naivePick
)

var (
	DrawScenario = drawScenario
	DrawFleet    = drawFleet
	DrawQuery    = drawQuery
	FleetTable   = (*fleet).table
	MakeHost     = makeHost
	HostsOf      = hostsOf
	TestID       = testID
	Evenly       = evenly
	PropChecks   = propChecks
)
