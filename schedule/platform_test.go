package schedule

import (
	"runtime"
	"testing"
)

// Hosts of the same machine type share its parsed facts. Once no host uses them, they are dropped.
func TestParseFacts_SameMachine_PlatformShared(t *testing.T) {
	texts := FactTexts{HypervisorType: "QEMU", CPUInfo: `{"model": "of this test"}`, SupportedInstances: `[["x86_64", "kvm", "hvm"], []]`}
	known := func() bool {
		platforms.Lock()
		defer platforms.Unlock()
		_, is := platforms.byKey["QEMU\x00"+texts.CPUInfo+"\x00"+texts.SupportedInstances]
		return is
	}
	a := ParseFacts(texts)
	texts.HostIP = "192.0.2.1"
	b := ParseFacts(texts)
	if a.hostPlatform != b.hostPlatform || len(b.Supported()) != 1 || b.Failed["supported_instances"] == "" || a.Failed["supported_instances"] != b.Failed["supported_instances"] {
		t.Errorf("of one machine %+v and %+v are read", a, b)
	}
	other := texts
	other.HypervisorType = "LXC"
	if ParseFacts(other).hostPlatform == a.hostPlatform || !known() {
		t.Error("another hypervisor has the same platform, or this one is not known")
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	for known() { // the cleanup runs some time after the collection
		runtime.GC()
	}
}
