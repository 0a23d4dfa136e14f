package nova

import (
	"reflect"
	"testing"

	"cellgate/schedule"
)

// A request for dedicated CPUs has a fallback: shared CPUs, without the thread policy's trait.
// NoPCPUFallback turns the fallback off, and a mixed policy never has one (nova/scheduler/utils.py,
// cpu_pinning_requested).
func TestFallbackOfDedicatedCPUs(t *testing.T) {
	amounts := func(cpus ...schedule.Amount) []schedule.Amount {
		return append([]schedule.Amount{{Class: "DISK_GB", N: 32}, {Class: "MEMORY_MB", N: 4096}}, cpus...)
	}
	for name, c := range map[string]struct {
		specs   map[string]any
		options Options
		hints   map[string]any
		first   []schedule.Amount
		want    *schedule.Fallback
	}{
		"shared": {first: amounts(schedule.Amount{Class: "VCPU", N: 2})},
		"dedicated": {
			specs: map[string]any{"hw:cpu_policy": "dedicated"}, first: amounts(schedule.Amount{Class: "PCPU", N: 2}),
			want: &schedule.Fallback{Resources: amounts(schedule.Amount{Class: "VCPU", N: 2}), Forbidden: []string{"COMPUTE_STATUS_DISABLED"}},
		},
		"threads": {
			specs: map[string]any{
				"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require", "hw:emulator_threads_policy": "isolate", "trait:X": "required",
			},
			first: amounts(schedule.Amount{Class: "PCPU", N: 3}),
			want: &schedule.Fallback{
				Resources: amounts(schedule.Amount{Class: "VCPU", N: 2}), Required: []string{"X"}, Forbidden: []string{"COMPUTE_STATUS_DISABLED"},
			},
		},
		"option": {
			specs: map[string]any{"hw:cpu_policy": "dedicated"}, options: Options{NoPCPUFallback: true},
			first: amounts(schedule.Amount{Class: "PCPU", N: 2}),
		},
		"mixed": {
			specs: map[string]any{"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"},
			first: amounts(schedule.Amount{Class: "PCPU", N: 1}, schedule.Amount{Class: "VCPU", N: 1}),
		},
		"rebuild": {
			specs: map[string]any{"hw:cpu_policy": "dedicated"}, hints: map[string]any{"_nova_check_type": []any{"rebuild"}},
			first: amounts(schedule.Amount{Class: "PCPU", N: 2}),
		},
	} {
		m := primitive(t)
		put(m, "/flavor//extra_specs", c.specs)
		if c.hints != nil {
			put(m, "/scheduler_hints", c.hints)
		}
		got, err := c.options.FromPrimitive(m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got.Request.Resources, c.first) {
			t.Errorf("%s asks first for %v", name, got.Request.Resources)
		}
		if !reflect.DeepEqual(got.Request.Fallback, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got.Request.Fallback, c.want)
		}
	}
}
