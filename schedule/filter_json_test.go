package schedule

import (
	"testing"

	"cellgate/internal/python"
)

// JsonFilter compares numbers exactly, whatever their size and kind. As in Python, NaN equals
// nothing, but "in" finds it in a list.
func TestJSONNumbersCompareAsInPython(t *testing.T) {
	host := &row{host: &Host{}}
	for query, want := range map[string]bool{
		`["=", 9007199254740993, 9007199254740992.0]`:               false,
		`["=", 9007199254740992, 9007199254740992.0]`:               true,
		`["<", 9007199254740992.0, 9007199254740993]`:               true,
		`["=", 18446744073709551616, 18446744073709551617]`:         false,
		`["<", 18446744073709551616, 18446744073709551617]`:         true,
		`[">=", 18446744073709551617, 18446744073709551617]`:        true,
		`["=", 18446744073709551616, 1.8446744073709552e19]`:        true,
		`["=", 18446744073709551617, 1.8446744073709552e19]`:        false,
		`[">", -9223372036854775809, -9223372036854775810]`:         true,
		`["<", -18446744073709551616, -5]`:                          true,
		`["<", 18446744073709551616, Infinity]`:                     true,
		`["<", 9007199254740993, Infinity]`:                         true,
		`[">", 18446744073709551616, -Infinity]`:                    true,
		`["=", Infinity, Infinity]`:                                 true,
		`["=", 1e400, Infinity]`:                                    true,
		`["=", NaN, NaN]`:                                           false,
		`["<=", NaN, NaN]`:                                          false,
		`["<", 1, NaN]`:                                             false,
		`["<", 18446744073709551616, NaN]`:                          false,
		`["in", NaN, 1, NaN]`:                                       true,
		`["in", NaN, 1, 2]`:                                         false,
		`["=", {"a": NaN}, {"a": NaN}]`:                             true,
		`["=", {"a": [1, NaN]}, {"a": [1.0, NaN]}]`:                 true,
		`["=", {"a": NaN}, {"a": 1}]`:                               false,
		`["=", true, 1]`:                                            true,
		`["=", 1, 1.0]`:                                             true,
		`["in", 18446744073709551616, 1, 18446744073709551616]`:     true,
		`["and", NaN, 18446744073709551616]`:                        true,
		`["=", 0, -0.0]`:                                            true,
		`["=", 36893488147419103232, 36893488147419103232.0]`:       true,
		`["=", 36893488147419103233, 36893488147419103232.0]`:       false,
		`["not", ["<", 36893488147419103232, 1.0]]`:                 true,
		`["<", 36893488147419103232.0, 36893488147419103233, 4e19]`: true,
	} {
		v, err := python.ParseJSON(query)
		if err != nil {
			t.Fatal(err)
		}
		got, raised := readTerm(&v).answer(host)
		is := got.Truth()
		if got.Kind == python.KindList {
			is = got.List[0].Truth()
		}
		if raised != nil || is != want {
			t.Errorf("%s is %v (%v), want %v", query, is, raised, want)
		}
	}
}
