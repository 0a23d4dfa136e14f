package hostprobe

import (
	"cmp"
	"slices"
	"strings"
)

// x86Traits maps flags in /proc/cpuinfo to traits: those that Nova's libvirt driver knows
// (nova/virt/libvirt/utils.py, CPU_TRAITS_MAPPING, by libvirt's names of the same flags), and others of
// os-traits that stand for one flag each.
var x86Traits = map[string][]string{
	"3dnow": {"3DNOW"}, "abm": {"ABM"}, "aes": {"AESNI"}, "avx": {"AVX"}, "avx2": {"AVX2"},
	"avx512bw": {"AVX512BW"}, "avx512cd": {"AVX512CD"}, "avx512dq": {"AVX512DQ"}, "avx512er": {"AVX512ER"},
	"avx512f": {"AVX512F"}, "avx512pf": {"AVX512PF"}, "avx512vl": {"AVX512VL"}, "avx512_vnni": {"AVX512VNNI"},
	"avx512vbmi": {"AVX512VBMI"}, "avx512ifma": {"AVX512IFMA"}, "avx512_vbmi2": {"AVX512VBMI2"},
	"avx512_bitalg": {"AVX512BITALG"}, "vaes": {"AVX512VAES"}, "gfni": {"AVX512GFNI"}, "vpclmulqdq": {"AVX512VPCLMULQDQ"},
	"avx512_vpopcntdq": {"AVX512VPOPCNTDQ"}, "bmi1": {"BMI"}, "bmi2": {"BMI2"}, "pclmulqdq": {"CLMUL"}, "f16c": {"F16C"},
	"fma": {"FMA3"}, "fma4": {"FMA4"}, "mmx": {"MMX"}, "mpx": {"MPX"}, "sha_ni": {"SHA"}, "sse": {"SSE"}, "sse2": {"SSE2"},
	"pni": {"SSE3"}, "sse4_1": {"SSE41"}, "sse4_2": {"SSE42"}, "sse4a": {"SSE4A"}, "ssse3": {"SSSE3"}, "tbm": {"TBM"}, "xop": {"XOP"},
	"svm": {"SVM", "AMD_SVM"}, "vmx": {"VMX", "INTEL_VMX"},
	"pdpe1gb": {"PDPE1GB"}, "stibp": {"STIBP"}, "sgx": {"SGX"}, "rtm": {"TSX"},
}

// armTraits are the flags of 64-bit ARM for which os-traits has a trait of the same name in capitals.
var armTraits = []string{
	"fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32", "fphp", "asimdhp", "asimdrdm", "atomics", "jscvt",
	"fcma", "lrcpc", "dcpop", "sha3", "sm3", "sm4", "asimddp", "sha512", "sve", "cpuid",
}

// traits are those detected on the host and those that the operator adds, sorted.
func (s *Settings) traits(m *Machine) []string {
	all := append([]string{"COMPUTE_NODE"}, s.Traits...)
	for _, flag := range m.info.flags {
		switch {
		case m.arch == "x86_64" || m.arch == "i686":
			for _, t := range x86Traits[flag] {
				all = append(all, "HW_CPU_X86_"+t)
			}
		case m.arch == "aarch64" && slices.Contains(armTraits, flag):
			all = append(all, "HW_CPU_AARCH64_"+strings.ToUpper(flag))
		}
	}
	if m.threads() {
		all = append(all, "HW_CPU_HYPERTHREADING")
	}
	if s.Disabled {
		all = append(all, "COMPUTE_STATUS_DISABLED")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// features maps the kernel's names of x86 flags to libvirt's, where they differ.
var features = map[string]string{
	"sse4_1": "sse4.1", "sse4_2": "sse4.2", "sha_ni": "sha-ni", "pclmulqdq": "pclmuldq", "avx512_vnni": "avx512vnni",
	"avx512_vbmi2": "avx512vbmi2", "avx512_bitalg": "avx512bitalg", "avx512_vpopcntdq": "avx512-vpopcntdq",
	"avx512_bf16": "avx512-bf16", "avx512_fp16": "avx512-fp16", "avx_vnni": "avx-vnni", "avx512_vp2intersect": "avx512-vp2intersect",
	"md_clear": "md-clear", "arch_capabilities": "arch-capabilities", "amx_bf16": "amx-bf16",
	"amx_int8": "amx-int8", "amx_tile": "amx-tile", "tsc_deadline_timer": "tsc-deadline", "cr8_legacy": "cr8legacy", "nrip_save": "nrip-save",
}

func featureName(flag string) string { return cmp.Or(features[flag], flag) }
