package schedule

import (
	"slices"
	"strconv"
	"testing"

	"cellgate/internal/python"
)

// Nova's operators, with their oddities (filters/extra_specs_ops.py).
func TestOperators(t *testing.T) {
	const raises = "raises"
	for _, c := range []struct{ value, req, want string }{
		{"4", "= 4", "true"},
		{"5", "= 4", "true"}, // = means at least
		{"3", "= 4", "false"},
		{"4.0", "== 4", "true"},
		{" 4 ", "== 4", "true"},
		{"1_000", ">= 999", "true"},
		{"nan", "!= nan", "true"},
		{"inf", ">= 1e308", "true"},
		{"0x10", ">= 1", raises},
		{"x", "== 4", raises},
		{"4", "== x", raises},
		{"4", "==", "false"},
		{"4", "==4", "false"}, // without an operator, the whole text is compared
		{"==4", "==4", "true"},
		{"4", "== 4 5", "true"}, // text after the operand is ignored
		{"gold", "s== gold", "true"},
		{"b", "s> a", "true"},
		{"10", "s< 9", "true"},
		{"avx avx2", "<in> avx2", "true"},
		{"avx avx2", "<in> avx 3", "true"},
		{"['avx', 'vmx']", "<all-in> avx vmx", "true"},
		{"avx", "<all-in> avx vmx", "false"},
		{"avx", "<all-in>", "false"},
		{"b", "<or> a <or> b", "true"},
		{"<or>", "<or> a <or> b", "false"},
		{"c", "<or> a <or> b", "false"},
		{"c", "<or> a <or>", "false"},
		{"b", "<or> a b", "false"},
		{"a", "<or>", raises},
		{"", "", "true"},
		{"a", "", "false"},
		{"  ", "  ", "true"},
	} {
		o := readOperator(c.req)
		ok, err := o.match(c.value)
		got := strconv.FormatBool(ok)
		if err != nil {
			got = raises
		}
		if got != c.want {
			t.Errorf("%q %s: %s, want %s", c.value, c.req, got, c.want)
		}
	}
}

// FuzzOperator holds that no text panics, that a text without an operator must be equal, and that a
// number matches like its text.
func FuzzOperator(f *testing.F) {
	for _, s := range []string{"= 4", "<or> a <or> b", "<all-in> a b", "s>= x", "", "<or>", ">=  1e400", "== 1_0", "!= nan", "plain"} {
		f.Add("4", s, int64(4))
	}
	known := []string{"=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<all-in>", "<or>"}
	f.Fuzz(func(t *testing.T, v, req string, n int64) {
		o := readOperator(req)
		ok, err := o.match(v)
		if ok && err != nil {
			t.Errorf("%q %q: matches and raises %v", v, req, err)
		}
		words := python.Fields(req)
		if len(words) == 0 || !slices.Contains(known, words[0]) {
			if err != nil || ok != (v == req) {
				t.Errorf("%q %q: %v, %v", v, req, ok, err)
			}
		}
		number := python.IntValue(n)
		direct, errDirect := o.matchValue(&number)
		text, errText := o.match(strconv.FormatInt(n, 10))
		if direct != text || (errDirect == nil) != (errText == nil) {
			t.Errorf("%d %q: %v as a number, %v as text", n, req, direct, text)
		}
	})
}

// FuzzFacts holds that neither a host's texts nor filters that read them panic.
func FuzzFacts(f *testing.F) {
	f.Add(`{"arch": "x86_64", "topology": {"cores": 4}}`, `[["x86_64", "kvm", "hvm"]]`, `{"a": 1.5}`, `[{"name": "cpu.percent", "value": 1}]`, `["=", "$stats.a", 1]`, ">= 1")
	f.Add(`[`, `[[]]`, `null`, `{}`, `["not", ["in", "$service.host", []]]`, "<or>")
	f.Fuzz(func(_ *testing.T, cpu, supported, stats, metrics, query, req string) {
		facts := ParseFacts(FactTexts{CPUInfo: cpu, SupportedInstances: supported, Stats: stats, Metrics: metrics, HostIP: stats})
		facts.Failed = nil
		table := hostsOf(Host{Facts: facts})
		o := DefaultOptions()
		o.MetricsSetting = []Ratio{{"cpu.percent", 1}}
		r := &Request{Nova: &NovaRequest{
			Flavor: Flavor{ExtraSpecs: []Pair{{"capabilities:" + supported, req}, {"capabilities:cpu_info:topology:cores", req}, {stats, req}}},
			Image:  &Image{Properties: []Property{{Name: "hw_architecture", Text: "x86_64"}, {Name: "img_hv_requested_version", Text: req}}},
			Hints:  []Hint{{"build_near_host_ip", []string{req}}, {"cidr", []string{stats}}, {"query", []string{query}}},
		}}
		for _, filter := range Filters() {
			if _, err := table.Propose(&Query{
				Request: r, Rules: &Rules{Filters: []string{filter}, Weighers: []Weigher{{MetricsWeigher, 1}}, Options: o}, Limit: 1,
			}); err != nil {
				panic(err)
			}
		}
	})
}
