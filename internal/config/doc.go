// Package config reads the configuration of every cellgate process: defaults,
// one YAML file, CELLGATE_… environment variables and flags, in that rising
// order.
//
// A key has one name in three spellings: gateway.propose_budget in the file,
// CELLGATE_GATEWAY_PROPOSE_BUDGET in the environment, --propose-budget as a
// flag.
// The structs in sections.go and host.go are the only list of keys, their tags the only descriptions
// and ranges, and Default the only list of defaults. Flags, variables, range checks and
// docs/reference/configuration.md are derived from them by reflection.
//
// Unknown keys are errors that name the nearest known one. Load collects the problems of all sources
// before it returns them as one *Problems; each names where the value was set (file:line, variable or
// flag).
package config
