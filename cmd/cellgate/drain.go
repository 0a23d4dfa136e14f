package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/gateway/rest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newDrain(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain HOST...",
		Short: "Plan how to empty hosts: where each instance goes, in which order, and what does not fit",
		Long: `Say where the instances of hosts would go, one after the other, and which find no host. They are placed on
a copy of their cell's table as live migrations are placed; nothing is moved. HOST is a uuid, the name of
a service host, or that of a node. Claims keep no traits, zone, image and hints: --specs brings them from
Nova's table request_specs. "-o commands" prints the plan as a shell script: review it, then run it.
The script disables the hosts first.`,
		Example: `  cellgate drain --plan cell1-r01-h001
  cellgate drain --plan cell1-r01-h001 cell1-r01-h002 -o commands
  cellgate drain --plan cell1-r01-h001 --cold -o commands
  cellgate drain --plan 710c6178-bcf9-40bc-9303-112cd17ef687 -o json`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
	}
	var req cellgatev1.PlanDrainRequest
	plan := cmd.Flags().Bool("plan", false, "plan only; required, since Nova moves instances and cellgate does not")
	cold := cmd.Flags().Bool("cold", false, "with -o commands: cold migrations, each confirmed, and no live ones")
	cmd.Flags().Int32Var(&req.MaxInstances, "max", 0, "instances tried, at most (0 for 10,000)")
	specs := cmd.Flags().String("specs", "", "file with what Nova keeps of instances, a line each: the uuid and its spec; - for standard input")
	c := newClient(cmd, t, "commands")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !*plan:
			return usage(cmd, errors.New(`--plan: is required: cellgate moves no instances; "--plan -o commands" prints the commands that do`))
		case *cold && *c.form != "commands":
			return usage(cmd, errors.New("--cold: is for -o commands alone"))
		}
		req.Hosts = args
		if *specs != "" {
			text, err := readInput(*specs, t.in)
			if err == nil {
				req.Specs, err = readSpecs(text)
			}
			if err != nil {
				return usage(cmd, fmt.Errorf("--specs: %w", err))
			}
		}
		show := showDrain
		if *c.form == "commands" {
			show = func(p *page, m *cellgatev1.PlanDrainResponse) { writeDrain(p, m, *cold) }
		}
		return ask(c, cmd, cellgatev1.NewCapacityClient, cellgatev1.CapacityClient.PlanDrain, &req, show)
	}
	return cmd
}

// readSpecs reads rows of Nova's request_specs. Each line has the instance, blanks, and the spec as
// JSON.
func readSpecs(text []byte) ([]*cellgatev1.InstanceSpec, error) {
	var out []*cellgatev1.InstanceSpec
	for n, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		at := strings.IndexByte(line, '{')
		if at < 0 {
			return nil, fmt.Errorf("line %d: has no JSON object", n+1)
		}
		spec := &structpb.Struct{}
		if err := rest.ReadJSON([]byte(line[at:]), spec); err != nil {
			return nil, fmt.Errorf("line %d: %s", n+1, wording(err))
		}
		out = append(out, &cellgatev1.InstanceSpec{InstanceUuid: strings.TrimSpace(line[:at]), NovaRequestSpec: spec})
	}
	return out, nil
}

func showDrain(p *page, m *cellgatev1.PlanDrainResponse) {
	// The summary names a single host.
	from := "FROM"
	if len(m.GetHosts()) == 1 {
		from = wideOnly + from
	}
	t := p.table("INSTANCE", from, "TO", "RESOURCES", "+CELL", "+GROUP", "+PROJECT")
	for _, v := range m.GetMoves() {
		i := v.GetInstance()
		t.row(i.GetInstanceUuid(), i.GetServiceHost(), v.GetToServiceHost(), amountsText(i), i.GetCell(), groupText(i), i.GetProjectId())
	}
	if len(m.GetMoves()) > 0 {
		t.print()
		p.printf("\n")
	}
	p.prose("%s", drainSummary(m))
	t = p.table("NO HOST FOR", from, "RESOURCES", "+CELL", "+GROUP")
	for _, u := range m.GetUnplaced() {
		i := u.GetInstance()
		t.row(i.GetInstanceUuid(), i.GetServiceHost(), amountsText(i), i.GetCell(), groupText(i))
	}
	t.printBelow()
	for _, why := range refusals(m) {
		p.prose("%s: %s.", why.who, why.text)
	}
	t = p.table("STAYS", from, "WHY")
	for _, s := range m.GetStaying() {
		t.row(s.GetInstance().GetInstanceUuid(), s.GetInstance().GetServiceHost(), stayTexts[s.GetReason()])
	}
	t.printBelow()
	for _, line := range drainCaveats(m) {
		p.printf("\n")
		p.prose("%s", line)
	}
}

var stayTexts = map[cellgatev1.StayReason]string{
	cellgatev1.StayReason_STAYS_PENDING:     "its claim is not confirmed: it is being built, or moved here",
	cellgatev1.StayReason_STAYS_MOVING:      "it is being moved away already",
	cellgatev1.StayReason_STAYS_NO_INSTANCE: "it is no instance",
}

var needTexts = map[cellgatev1.UnknownNeed]string{
	cellgatev1.UnknownNeed_NEED_TRAITS:     "required traits",
	cellgatev1.UnknownNeed_NEED_AGGREGATES: "zone and aggregates",
	cellgatev1.UnknownNeed_NEED_IMAGE:      "image",
	cellgatev1.UnknownNeed_NEED_HINTS:      "hints",
	cellgatev1.UnknownNeed_NEED_GROUP:      "server group",
	cellgatev1.UnknownNeed_NEED_HARDWARE:   "NUMA cells and devices",
	cellgatev1.UnknownNeed_NEED_FLAVOR:     "flavor id",
}

// drainSummary says in a sentence where the instances go.
func drainSummary(m *cellgatev1.PlanDrainResponse) string {
	on := 0
	for _, h := range m.GetHosts() {
		on += int(h.GetInstances())
	}
	where := counted(len(m.GetHosts()), "host")
	if len(m.GetHosts()) == 1 {
		where = m.GetHosts()[0].GetServiceHost()
	}
	if on == 0 {
		return fmt.Sprintf("No instances on %s: nothing has to move.", where)
	}
	var parts []string
	for _, part := range []struct {
		n         int
		one, many string
	}{
		{len(m.GetMoves()), "can move", "can move"},
		{len(m.GetUnplaced()), "finds no host", "find no host"},
		{len(m.GetStaying()), "cannot be moved now", "cannot be moved now"},
		{int(m.GetUntried()), "was not tried", "were not tried"},
	} {
		switch {
		case part.n == 1:
			parts = append(parts, "1 "+part.one)
		case part.n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.many))
		}
	}
	return fmt.Sprintf("%s on %s: %s.", counted(on, "instance"), where, strings.Join(parts, ", "))
}

// drainCaveats says in sentences what the plan does not know.
func drainCaveats(m *cellgatev1.PlanDrainResponse) (lines []string) {
	unknown := map[cellgatev1.UnknownNeed]int{}
	planned := 0
	note := func(i *cellgatev1.DrainInstance) {
		planned++
		for _, n := range i.GetUnknown() {
			unknown[n]++
		}
	}
	for _, v := range m.GetMoves() {
		note(v.GetInstance())
	}
	for _, u := range m.GetUnplaced() {
		note(u.GetInstance())
	}
	var needs []string
	for _, n := range slices.Sorted(maps.Keys(unknown)) {
		text := needTexts[n]
		if unknown[n] < planned {
			text += " of " + counted(unknown[n], "instance")
		}
		needs = append(needs, text)
	}
	if len(needs) > 0 {
		lines = append(lines, "The plan ignores what is not known of the instances: "+strings.Join(needs, ", ")+". --specs FILE brings it from Nova's database.")
	}
	if m.GetUntried() > 0 {
		lines = append(lines, map[cellgatev1.CapacityEnd]string{
			cellgatev1.CapacityEnd_LIMIT: "The plan has as many instances as --max allows: the others were not tried.",
			cellgatev1.CapacityEnd_TIME:  "The time for the plan ended: the other instances were not tried.",
		}[m.GetEnd()])
	}
	for _, c := range m.GetCells() {
		if c.GetOutcome() == cellgatev1.CellOutcome_UNAVAILABLE {
			lines = append(lines, fmt.Sprintf("Cell %s did not answer: %s.", c.GetCell(), c.GetReason()))
		}
	}
	if !m.GetExact() && !m.GetPartial() {
		lines = append(lines, "The order of hosts is not exact: another host may be a better destination.")
	}
	return lines
}

// refusedAlike are the instances that the planner refuses for the same reason.
type refusedAlike struct{ who, text string }

// refusals joins the refused instances that have the same reason.
func refusals(m *cellgatev1.PlanDrainResponse) []refusedAlike {
	var order []string
	who, change := map[string][]string{}, map[string]string{}
	for _, u := range m.GetUnplaced() {
		text := u.GetMessage()
		if who[text] == nil {
			order = append(order, text)
		}
		who[text] = append(who[text], u.GetInstance().GetInstanceUuid())
		r := u.GetRefusal()
		change[text] = cmp.Or(change[text], r.GetSmallestOperatorChange(), r.GetSmallestChange())
	}
	out := make([]refusedAlike, len(order))
	for i, text := range order {
		ids := who[text]
		out[i].who = ids[0]
		if len(ids) > 1 {
			out[i].who += fmt.Sprintf(" and %d more", len(ids)-1)
		}
		out[i].text = printable(text)
		if c := change[text]; c != "" {
			out[i].text += ". Nearest: " + printable(c)
		}
	}
	return out
}

func groupText(i *cellgatev1.DrainInstance) string {
	if i.GetGroupUuid() == "" {
		return ""
	}
	return i.GetGroupPolicy() + " " + i.GetGroupUuid()
}

// amountsText writes amounts, with VCPU, PCPU, MEMORY_MB and DISK_GB first.
func amountsText(i *cellgatev1.DrainInstance) string {
	var parts []string
	first := []string{"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"}
	for _, class := range first {
		if n := i.GetResources()[class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, class))
		}
	}
	for _, class := range slices.Sorted(maps.Keys(i.GetResources())) {
		if !slices.Contains(first, class) {
			parts = append(parts, fmt.Sprintf("%d %s", i.GetResources()[class], class))
		}
	}
	return strings.Join(parts, ", ")
}

// writeDrain writes the plan as a shell script.
func writeDrain(p *page, m *cellgatev1.PlanDrainResponse, cold bool) {
	comment := func(format string, args ...any) { p.printf("# %s\n", printable(fmt.Sprintf(format, args...))) }
	p.printf("#!/bin/sh\n")
	comment("%s", drainSummary(m))
	for _, line := range drainCaveats(m) {
		comment("%s", line)
	}
	comment("Each move fits once those before it are done. The first one that fails ends the script.")
	p.printf("set -eu\n\n# Nothing new goes to the hosts.\n")
	for _, h := range m.GetHosts() {
		p.printf("cellgate hosts disable %s --reason drain # %s\n", shellQuote(h.GetHostUuid()), printable(h.GetServiceHost()))
	}
	for _, v := range m.GetMoves() {
		i := v.GetInstance()
		p.printf("\n")
		comment("from %s: %s", i.GetServiceHost(), amountsText(i))
		if cold {
			p.printf("openstack --os-compute-api-version 2.56 server migrate --wait --host %s %s\n", shellQuote(v.GetToServiceHost()), shellQuote(i.GetInstanceUuid()))
			p.printf("openstack server migration confirm %s\n", shellQuote(i.GetInstanceUuid()))
		} else {
			p.printf("openstack --os-compute-api-version 2.30 server migrate --live-migration --wait --host %s %s\n", shellQuote(v.GetToServiceHost()), shellQuote(i.GetInstanceUuid()))
		}
	}
	if len(m.GetUnplaced())+len(m.GetStaying()) > 0 {
		p.printf("\n")
		comment("Not moved:")
	}
	for _, u := range m.GetUnplaced() {
		comment("%s on %s: %s", u.GetInstance().GetInstanceUuid(), u.GetInstance().GetServiceHost(), u.GetMessage())
	}
	for _, s := range m.GetStaying() {
		comment("%s on %s: %s", s.GetInstance().GetInstanceUuid(), s.GetInstance().GetServiceHost(), stayTexts[s.GetReason()])
	}
}

// shellQuote quotes a text as one argument of a shell.
func shellQuote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r)
	}
	if text != "" && !strings.HasPrefix(text, "-") && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
