package selection

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

const (
	// maxText bounds a project, user or flavor id, in characters, as the schema of the typed
	// form does.
	maxText = 255
	// maxGuest is shard.MaxGuest.
	maxGuest = 1 << 16
	// providerText is a generous bound of the bytes that a provider's uuid adds to a claim beyond the request's own.
	providerText = 64
)

// checkStorable refuses a request with texts or a guest that a claim cannot store. The schema
// bounds the texts of the typed form; Nova's object has no schema.
func (s *selection) checkStorable() error {
	var bad []fault.Field
	short := func(path, text string) {
		if n := utf8.RuneCountInString(text); n > maxText {
			bad = append(bad, fault.Field{Path: s.form() + path, Problem: fmt.Sprintf("has %d characters, the most is %d", n, maxText)})
		}
	}
	short(".project_id", s.project)
	short(".user_id", s.user)
	if n := s.request.Nova; n != nil {
		short(".flavor.flavorid", n.Flavor.ID)
		bad = append(bad, s.guestProblems(n)...)
	}
	return fault.InvalidFields(bad)
}

// guestProblems names the parts of a guest that exceed what a claim stores (cell.guest).
func (s *selection) guestProblems(n *schedule.NovaRequest) (bad []fault.Field) {
	if n.Image == nil && n.NUMA == nil && len(n.PCI) == 0 {
		return nil
	}
	g := guestOf(s.request, s.rules, &schedule.Allocation{})
	if size := proto.Size(&cellv1.NovaImage{Properties: g.GetImage().GetProperties()}); size > maxGuest {
		bad = append(bad, fault.Field{Path: s.form() + ".image.properties", Problem: fmt.Sprintf("have %d bytes, the most that a claim keeps is %d", size, maxGuest)})
	}
	if g.GetNuma() == nil && len(g.GetPciRequests()) == 0 {
		return bad
	}
	check := hardware.Check{Guest: n.Guest, JudgeNUMA: g.GetJudgeNuma(), JudgePCI: g.GetJudgePci()}
	size := len(check.Encode())
	for i := range n.PCI {
		size += providerText * len(n.PCI[i].Groups)
	}
	if size > maxGuest {
		bad = append(bad, fault.Field{Path: s.form(), Problem: fmt.Sprintf("numa_topology, pci_requests and networks have %d bytes, the most that a claim keeps is %d", size, maxGuest)})
	}
	return bad
}

// guestOf encodes what a claim of an allocation keeps of its instance for later requests; nil for nothing.
func guestOf(r *schedule.Request, rules *schedule.Rules, of *schedule.Allocation) *cellv1.Guest {
	n := r.Nova
	if n == nil {
		return nil
	}
	g := &cellv1.Guest{FlavorId: n.Flavor.ID}
	weighed := slices.ContainsFunc(rules.Weighers, func(w schedule.Weigher) bool { return w.Name == schedule.ImagePropertiesWeigher })
	if weighed && n.Image != nil && len(n.Image.Properties) > 0 {
		g.Image = wire.ImageOf(n.Image)
	}
	if n.NUMA != nil || len(n.PCI) > 0 {
		g.Numa, g.PciRequests, g.Networks = wire.NUMAOf(n.NUMA), wire.PCIOf(schedule.WithProviders(&n.Guest, of.Mappings).PCI), wire.NetworksOf(n.Networks)
		// The filters are not run on a forced host, as in Nova.
		g.JudgeNuma = n.NUMA != nil && !r.Forced() && slices.Contains(rules.Filters, schedule.NUMAFilter)
		g.JudgePci = len(n.PCI) > 0 && !r.Forced() && slices.Contains(rules.Filters, schedule.PCIFilter)
	}
	if g.FlavorId == "" && g.Image == nil && g.Numa == nil && len(g.PciRequests) == 0 {
		return nil
	}
	return g
}
