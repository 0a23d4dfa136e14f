package agent

import (
	"fmt"
	"testing"
	"testing/synctest"

	"cellgate/internal/hoststate"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule/hardware"
)

// pinnedGuest is a guest with four dedicated CPUs and four 1 GiB pages on each of its NUMA cells,
// as a cell sends it.
func pinnedGuest(cells int) []byte {
	numa := &hardware.InstanceNUMA{}
	for n := range cells {
		numa.Cells = append(numa.Cells, hardware.InstanceCell{
			ID: int64(n), Dedicated: 4, MemoryMB: 4096, PageSize: 1 << 20, Policy: hardware.CPUDedicated, Threads: hardware.ThreadRequire,
		})
	}
	check := hardware.Check{Guest: hardware.Guest{NUMA: numa}, JudgeNUMA: true}
	return check.Encode()
}

// cardGuest is a guest with two A40 cards.
func cardGuest() []byte {
	check := hardware.Check{JudgePCI: true, Guest: hardware.Guest{PCI: []hardware.PCIRequest{{
		Count: 2, Policy: hardware.PCIRequired, Specs: []hardware.PCISpec{{{Key: "vendor_id", Value: "10de"}, {Key: "product_id", Value: "2235"}}},
	}}}}
	return check.Encode()
}

// offered sends the offer of a claim over the host's stream and gives the verdict.
func (c *fakeCell) offered(t *testing.T, host *Host, id string, instance int, guest []byte) *agentv1.Verdict {
	t.Helper()
	state, _ := host.State()
	c.sendToAgent(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_ClaimOffer{ClaimOffer: &agentv1.ClaimOffer{
		ClaimId: id, InstanceUuid: instanceUUID(instance), ConsumerUuid: instanceUUID(instance), Guest: guest, WantsVerdict: true,
		Usages: []*agentv1.Usage{{ProviderUuid: state.GetHostUuid(), ResourceClass: "VCPU", Amount: 1}},
	}}})
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.verdicts) == 0 || c.verdicts[len(c.verdicts)-1].GetClaimId() != id {
		t.Fatalf("claim %s has no verdict", id)
	}
	return c.verdicts[len(c.verdicts)-1]
}

// Claims on NUMA cells and devices are judged by the host's report and by what other claims hold.
// Here that goes over the stream, on a simulated host with four cards and room for four guests with
// 1 GiB pages.
func TestHardwareIsJudgedThroughTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		guest  []byte
		fit    int
		reason agentv1.Verdict_Reason
	}{
		"NUMA cells": {pinnedGuest(2), 4, agentv1.Verdict_NO_NUMA},
		"devices":    {cardGuest(), 2, agentv1.Verdict_NO_PCI},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cell := &fakeCell{}
				cell.start()
				host := NewHost(Simulate(1, "cell1", 23))
				reportingTo(t, cell, host, ReporterDeps{})
				synctest.Wait()
				guest := c.guest
				expect := func(when, id string, instance int, want agentv1.Verdict_Reason) {
					t.Helper()
					v := cell.offered(t, host, id, instance, guest)
					outcome := agentv1.Verdict_OK
					if want != ok {
						outcome = agentv1.Verdict_REJECTED
					}
					if v.GetReason() != want || v.GetOutcome() != outcome || v.GetBootId() != host.bootID {
						t.Errorf("%s: %v, want %v", when, v, want)
					}
				}
				for n := range c.fit {
					expect("with room", fmt.Sprint("c", n), n, ok)
				}
				expect("full", "late", 10, c.reason)
				expect("one that is held, again", "c0", 0, ok)
				cell.sendToAgent(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_ClaimEnded{ClaimEnded: &agentv1.ClaimEnded{ClaimId: "c0", State: "RELEASED"}}})
				expect("one has ended", "late", 10, ok)
				expect("full again", "later", 11, c.reason)
				// Once the instance is reported, its usage is what the report says: here nothing.
				state, _ := host.State()
				next := hoststate.ShallowCopy(state)
				next.Instances = append(next.Instances[:len(next.Instances):len(next.Instances)], &agentv1.Instance{InstanceUuid: instanceUUID(1), Usages: []*agentv1.Usage{
					{ProviderUuid: state.GetHostUuid(), ResourceClass: "VCPU", Amount: 1},
				}})
				host.Put(next)
				expect("one runs", "later", 11, ok)
				next = hoststate.ShallowCopy(next)
				next.Facts = &agentv1.Facts{}
				host.Put(next)
				expect("a host that reports no hardware", "none", 12, c.reason)
				guest = []byte{0xff}
				expect("a guest that is not readable", "broken", 13, agentv1.Verdict_NO_NUMA)
				guest = nil
				expect("none asked for", "plain", 14, ok)
			})
		})
	}
}
