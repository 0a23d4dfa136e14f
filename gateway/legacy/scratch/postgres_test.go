package scratch

import "testing"

// Dumps give tables to roles, and those of newer servers set parameters, that the server here does not have.
func TestHarmless_ErrorsOfADump(t *testing.T) {
	for line, want := range map[string]bool{
		`ERROR:  role "nova" does not exist`:                                     true,
		`ERROR:  unrecognized configuration parameter "transaction_timeout"`:     true,
		`ERROR:  relation "public.compute_nodes" does not exist`:                 false,
		`ERROR:  duplicate key value violates unique constraint "services_pkey"`: false,
		`ERROR:  invalid value for parameter "client_encoding": "unrecognized"`:  false,
	} {
		if got := harmless.MatchString(line); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
}
