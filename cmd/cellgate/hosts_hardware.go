package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// showHardware prints a host's NUMA cells and devices, if it has some, and which instances take what of
// them.
func showHardware(p *page, h *cellgatev1.Host) {
	t := p.table("NUMA CELL", "SHARED CPUS", "DEDICATED", "PINNED", "SHARED USED", "MEMORY MB", "PAGES FREE", "+SOCKET")
	for _, n := range h.GetNumaCells() {
		t.row(n.GetId(), n.GetSharedCpus(), n.GetDedicatedCpus(), n.GetPinnedCpus(), n.GetCpusUsed(), of(n.GetMemoryUsedMb(), n.GetMemoryMb()), joined(n.GetPages(), pagesText, ", "), n.GetSocket())
	}
	t.printBelow()
	t = p.table("DEVICES", "NUMA CELL", "FREE", "HELD BY CLAIMS")
	for _, d := range h.GetDevicePools() {
		cell := ""
		if d.GetNumaCell() >= 0 {
			cell = fmt.Sprint(d.GetNumaCell())
		}
		t.row(strings.ReplaceAll(d.GetDevices(), ",", ", "), cell, d.GetFree(), d.GetReportedFree()-d.GetFree())
	}
	t.printBelow()
	t = p.table("TAKEN BY", "NUMA CELLS", "DEVICES")
	for _, c := range h.GetHardwareClaims() {
		var devices []string
		for _, pool := range slices.Sorted(maps.Keys(c.GetDevices())) {
			devices = append(devices, fmt.Sprintf("%d × %s", c.GetDevices()[pool], strings.ReplaceAll(pool, ",", ", ")))
		}
		t.row(c.GetInstanceUuid(), joined(c.GetNumaCells(), numaClaimText, "; "), strings.Join(devices, "; "))
	}
	t.printBelow()
	if len(h.GetHardwareClaims()) > 0 {
		p.prose("Instances that the host reports are in what is used, and not listed.")
	}
	if why := h.GetHardwareProblem(); why != "" {
		p.printf("\n")
		p.prose("NUMA cells and devices are not readable: %s", printable(why))
	}
}

// pagesText says how many pages of a size are free: "100 of 2 MiB".
func pagesText(g *cellgatev1.HostPages) string {
	return fmt.Sprintf("%d of %s", g.GetTotal()-g.GetUsed()-g.GetReserved(), pageSizeText(g.GetSizeKb()))
}

func pageSizeText(kb int64) string {
	switch {
	case kb >= 1<<20 && kb%(1<<20) == 0:
		return fmt.Sprintf("%d GiB", kb>>20)
	case kb >= 1<<10 && kb%(1<<10) == 0:
		return fmt.Sprintf("%d MiB", kb>>10)
	}
	return fmt.Sprintf("%d KiB", kb)
}

// numaClaimText says what an instance takes of a NUMA cell: "cell 0: CPUs 5-6, 64 MB".
func numaClaimText(n *cellgatev1.NumaCellClaim) string {
	var parts []string
	if n.GetPinnedCpus() != "" {
		parts = append(parts, "CPUs "+n.GetPinnedCpus())
	}
	if n.GetSharedCpus() > 0 {
		parts = append(parts, counted(int(n.GetSharedCpus()), "shared CPU"))
	}
	memory := fmt.Sprintf("%d MB", n.GetMemoryMb())
	if n.GetPageSizeKb() > 0 {
		memory += " in pages of " + pageSizeText(n.GetPageSizeKb())
	}
	return fmt.Sprintf("cell %d: %s", n.GetId(), strings.Join(append(parts, memory), ", "))
}
