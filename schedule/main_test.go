package schedule

import (
	"os"
	"testing"

	"cellgate/internal/norace"
)

// TestMain leaves out tests that start no goroutine and take long with the race detector.
func TestMain(m *testing.M) {
	norace.LeaveOut(
		"TestEditsEqualRebuilt",
		"TestFill_RandomFleets_EqualsPlacingOneByOne",
		"TestHardwareIsNaive",
		"TestI5_LostCellEqualsSchedulerWithoutIt",
		"TestI5_MergedOrderEqualsSingleScheduler",
		"TestI5_OutOfRoundsIsNotExact",
		"TestI5_ManyInstancesEqualOneScheduler",
		"TestForecast_EachStep_IsWhatTheTableSaysThen",
		"TestAssign_RandomHardware_AgreesWithTheFilters",
		"TestNearMisses_RandomFleets_LeastChangeLetsTheHostPass",
		"TestNearMisses_SmallFleets_NoSmallerChangeFits",
		"TestChanges_NUMAAndDedicatedCPUs_FitAndNoneIsSmaller",
		"TestNovaFiltersAllocateNothingPerHost",
		"TestPCIGroups_EachFilterOfEachCandidate_IsNaive",
		"TestPlanRoundsOnABusyFleet",
		"TestProposeAllocatesNothingPerHost",
		"TestScores_RandomFleets_AddUpToTheWeight",
		"TestProposeIsNaive",
		"TestFilterCache_AnyQuery_AnswersAsItsTable",
		"TestFilterCache_Trees_AnswersAsAFreshSearch",
		"TestTreeSearchIsNaive",
		"TestTreesAgainstPlacement",
		"TestTreesAllocateNothingPerHost",
		"TestTreesAreJudgedAsPlacementDoes",
	)
	os.Exit(m.Run())
}
