package config

import (
	"reflect"
	"strings"
	"testing"
)

// Flags can set a host's lists just as a file can.
func TestHostFromFlags(t *testing.T) {
	c, err := Load("agent", Source{Flags: map[string]string{
		"agent.print":                    "true",
		"agent.host.reserved_huge_pages": "node=0,size=2MB,count=64;node:1,size:1GB,count:2",
		"agent.host.pci_devices":         "vendor_id=8086,product_id=154c,address=*:81:*.*,physical_network=net1,trusted=true,speed=25g;devname=ens1f0",
		"agent.host.aggregates":          "uuid=a0000000-0000-4000-8000-000000000001,name=az1,availability_zone=az1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := Host{
		ReservedHugePages: []ReservedPages{{0, "2MB", 64}, {1, "1GB", 2}},
		PCIDevices: []PCIDevice{
			{VendorID: "8086", ProductID: "154c", Address: "*:81:*.*", PhysicalNetwork: "net1", Trusted: "true", Tags: []string{"speed=25g"}},
			{DevName: "ens1f0"},
		},
		Aggregates: []Aggregate{{UUID: "a0000000-0000-4000-8000-000000000001", Name: "az1", Metadata: []string{"availability_zone=az1"}}},
	}
	got := Host{ReservedHugePages: c.Agent.Host.ReservedHugePages, PCIDevices: c.Agent.Host.PCIDevices, Aggregates: c.Agent.Host.Aggregates}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for key, text := range map[string]string{
		"agent.host.reserved_huge_pages": "node=0,size=2MB", "agent.host.pci_devices": "8086:154c", "agent.host.aggregates": "az1",
	} {
		if _, err := Load("agent", Source{Flags: map[string]string{"agent.print": "true", key: text}}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: %v", key, text, err)
		}
	}
}

// A host that is only printed needs no cell. A simulated one needs nothing of the machine.
func TestAgentNeedsWhatItUses(t *testing.T) {
	if _, err := Load("agent", Source{Flags: map[string]string{"agent.print": "true", "agent.host.state_dir": ""}}); err != nil {
		t.Error(err)
	}
	flags := map[string]string{"agent.cell": "c", "agent.replicas": "h:1", "agent.hosts": "3", "agent.host.state_dir": "", "agent.host.disabled_reason": "x"}
	if _, err := Load("agent", Source{Flags: flags}); err != nil {
		t.Error(err)
	}
	flags["agent.hosts"] = "0"
	if _, err := Load("agent", Source{Flags: flags}); err == nil || !strings.Contains(err.Error(), "2 problems") {
		t.Errorf("%v, want 2 problems", err)
	}
}

// An alias of PCI devices is read from a flag, and is written in the same form.
func TestPCIAliases(t *testing.T) {
	text := "name=gpu,vendor_id=10de,product_id=1db6,device_type=type-PCI,numa_policy=required"
	flags := map[string]string{"gateway.cells": "a=h:1", "gateway.pci_alias": text + ";name=any"}
	c, err := Load("gateway", Source{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	want := []PCIAlias{{Name: "gpu", VendorID: "10de", ProductID: "1db6", DeviceType: "type-PCI", NUMAPolicy: "required"}, {Name: "any"}}
	if !reflect.DeepEqual(c.Gateway.PCIAliases, want) || want[0].String() != text {
		t.Errorf("%+v, %s", c.Gateway.PCIAliases, want[0])
	}
	flags["gateway.pci_alias"] = "name=gpu,vendor=10de"
	if _, err := Load("gateway", Source{Flags: flags}); err == nil || !strings.Contains(err.Error(), "gateway.pci_alias") {
		t.Errorf("an unknown field: %v", err)
	}
}
