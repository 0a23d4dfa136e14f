// Package expression compiles texts in CEL, the Common Expression Language (cel.dev), into
// schedule.Expressions over a host, its facts, and the request.
//
// It neither stores expressions nor evaluates them over hosts. A gateway compiles a text to tell its
// caller what is wrong; a cell compiles it to evaluate it (schedule.ExpressionFilter).
//
//	vars.go       what an expression may read
//	compile.go    text → Program, or what is wrong with it and where
//	program.go    Program, asked of a host
//	maps.go       iterates over maps in the order of their keys, and refuses those that are too large
//	pattern.go    regular expressions, of bounded size over bounded texts
//	costs.go      the cost of operations that CEL counts too low
//
// Rules:
//
//   - An answer depends on the text, the request and the host alone, so that any split into cells
//     rejects the same hosts under the same details (TestAnswersAreThoseOfTheNaive).
//   - A field that a host lacks does not fail the request: the host is rejected, and counted under what
//     it lacks.
//   - A host costs at most MaxCost steps, and no step takes long, whatever its facts are
//     (TestNoExpressionTakesLongOverAHost, BenchmarkHostile).
package expression
