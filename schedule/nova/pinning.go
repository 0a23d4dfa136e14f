package nova

import (
	"cmp"
	"fmt"

	"cellgate/schedule"
)

// pcpu is the class of dedicated CPUs.
const pcpu = "PCPU"

// pinning asks for PCPU instead of VCPU under the policies dedicated and mixed, plus one for isolated emulator
// threads. By the thread policy it requires or forbids hyperthreading (ResourceRequest._translate_pinning_policies).
func (r *resourceRequest) pinning(g *guest) {
	policy, threads, emulator := g.cpuPolicy(), g.threadPolicy(), g.emulatorPolicy()
	unsuffixed := r.group("")
	switch policy {
	case "dedicated":
		r.pinned = true
		unsuffixed.resources[pcpu] = g.spec.Flavor.VCPUs
	case "mixed":
		dedicated, realtime := g.dedicatedCPUs(), g.realtimeCPUs(emulator)
		n := int64(len(dedicated))
		if n == 0 {
			n = int64(len(realtime))
		}
		unsuffixed.resources[vcpu] = g.spec.Flavor.VCPUs - n
		unsuffixed.resources[pcpu] = n
	}
	if (policy == "dedicated" || policy == "mixed") && emulator == "isolate" {
		unsuffixed.resources[pcpu]++
	}
	const trait = "HW_CPU_HYPERTHREADING"
	path := g.at("hw:cpu_thread_policy", "hw_cpu_thread_policy")
	switch threads {
	case "isolate":
		unsuffixed.add(unsuffixed.forbidden, path, trait)
	case "require":
		unsuffixed.add(unsuffixed.required, path, trait)
	}
}

// cpuPolicy combines the policies of flavor and image. The image must not ask for more than the flavor allows
// (get_cpu_policy_constraint).
func (g *guest) cpuPolicy() string {
	const key = "hw:cpu_policy"
	flavor, image := g.choices(key, "dedicated", "shared", "mixed")
	if flavor == "mixed" && image == "dedicated" || flavor == "shared" && (image == "mixed" || image == "dedicated") {
		g.invalid(g.at(key, property(key)), "is %s, but the image has hw_cpu_policy=%s", flavor, image)
	}
	return cmp.Or(flavor, image)
}

// threadPolicy combines the policies of flavor and image (get_cpu_thread_policy_constraint). The flavor's counts if
// it has one. Unless it is prefer, an image with another one is invalid.
func (g *guest) threadPolicy() string {
	const key = "hw:cpu_thread_policy"
	flavor, image := g.choices(key, "prefer", "isolate", "require")
	switch {
	case flavor == "":
		return image
	case flavor != "prefer" && image != "" && image != flavor:
		g.invalid(g.at(key, property(key)), "is %s, but the image has hw_cpu_thread_policy=%s", flavor, image)
	}
	return flavor
}

// emulatorPolicy is where emulator threads run; only flavors have it.
func (g *guest) emulatorPolicy() string {
	flavor, _ := g.choices("hw:emulator_threads_policy", "share", "isolate")
	return flavor
}

// dedicatedCPUs are the CPUs in hw:cpu_dedicated_mask: some of the flavor's, but not all.
func (g *guest) dedicatedCPUs() cpuSet {
	const key = "hw:cpu_dedicated_mask"
	mask := g.spec.Flavor.ExtraSpecs[key]
	if mask == "" {
		return nil
	}
	cpus, problem := cpusOf(mask, g.spec.Flavor.VCPUs)
	switch {
	case problem != "":
	case len(cpus) == 0 || int64(len(cpus)) == g.spec.Flavor.VCPUs:
		problem = "must leave some CPUs shared and some dedicated"
	}
	if problem != "" {
		g.invalid(at(g.spec.Path+".flavor.extra_specs", key), "%s", problem)
		return nil
	}
	return cpus
}

// realtimeCPUs are the CPUs in the realtime mask; the image's mask overrides the flavor's
// (get_realtime_cpu_constraint). Nil if realtime is off.
func (g *guest) realtimeCPUs(emulator string) cpuSet {
	const key = "hw:cpu_realtime_mask"
	if !truthy(g.spec.Flavor.ExtraSpecs["hw:cpu_realtime"]) {
		return nil
	}
	mask := cmp.Or(g.image[property(key)], g.spec.Flavor.ExtraSpecs[key], fmt.Sprintf("0-%d", g.spec.Flavor.VCPUs-1))
	cpus, problem := cpusOf(mask, g.spec.Flavor.VCPUs)
	switch {
	case problem != "":
	case len(cpus) == 0:
		problem = "must leave some CPUs"
	case int64(len(cpus)) == g.spec.Flavor.VCPUs && emulator == "":
		problem = "must leave a CPU for emulator threads, or hw:emulator_threads_policy must be set"
	}
	if problem != "" {
		g.invalid(g.at(key, property(key)), "%s", problem)
		return nil
	}
	return cpus
}

// fallback is the second query that Nova makes if all CPUs are dedicated, for computes that report no PCPU
// (nova/scheduler/manager.py, select_destinations). It asks for VCPU, without the thread policy's trait. Nil if Nova
// makes none.
func (f *findings) fallback(s *Spec, asked *resourceRequest) *schedule.Fallback {
	if !asked.pinned || f.options.NoPCPUFallback || s.Rebuild() || len(f.fields) > 0 {
		return nil
	}
	// It asks for no other traits than the first, so it has no new problems.
	again := (&findings{options: f.options}).build(s, false)
	again.root = asked.root
	out := &schedule.Fallback{Resources: f.resources(s, again)}
	out.Required, out.Forbidden = again.rootTraits()
	return out
}
