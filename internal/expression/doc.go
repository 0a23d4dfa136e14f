// Package expression makes schedule.Expressions of texts in CEL, the Common Expression
// Language (cel.dev), over a host, its facts, and the request.
//
// It is not where expressions come from, nor where they are asked: a gateway compiles
// to tell its caller what is wrong, a cell to ask (schedule.ExpressionFilter).
//
//	vars.go       what an expression may read
//	compile.go    text → Program, or what is wrong with it and where
//	program.go    Program, asked of a host
//	maps.go       maps are gone through in the order of their keys; what is too large is not
//	pattern.go    regular expressions, of bounded size over bounded texts
//	costs.go      what CEL itself counts as less than it takes
//
// What holds:
//
//   - An answer follows from the text, the request and the host alone, so that any
//     split into cells rejects the same hosts under the same details
//     (TestAnswersAreThoseOfTheNaive).
//   - Nothing that a host lacks fails a request: such a host is rejected, and counted
//     under what was missing.
//   - A host costs at most MaxCost steps, and none of them takes long, whatever facts it has
//     (TestNoExpressionTakesLongOverAHost, BenchmarkHostile).
package expression
