package expression

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

const (
	// maxPatterns bounds the sum of the sizes of a text's patterns (sizeOf).
	maxPatterns = 1000
	// maxPatternBytes is the longest pattern: parsing can take 0.1 ms a byte.
	maxPatternBytes = 512
)

// Overloads of matches. CEL's own have other names.
const (
	matchesOf   = "matches_within_cost"
	textMatches = "string_matches_within_cost"
)

// matchesFunction declares matches, which each text implements with its own patterns. CEL's
// implementation parses a pattern again for each host, counts a call only when it is over, and has a
// bound on patterns that panics at a counted repetition.
func matchesFunction() cel.EnvOption {
	texts := []*cel.Type{cel.StringType, cel.StringType}
	return cel.Function(overloads.Matches,
		cel.Overload(matchesOf, texts, cel.BoolType), cel.MemberOverload(textMatches, texts, cel.BoolType))
}

// pattern is a regular expression, and its size.
type pattern struct {
	re   *regexp.Regexp
	size int
}

// patterns are the patterns of a text, by their own text.
type patterns map[string]*pattern

func makePattern(text string) (*pattern, error) {
	if len(text) > maxPatternBytes {
		return nil, fmt.Errorf("a pattern of %d bytes, must have at most %d", len(text), maxPatternBytes)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := sizeOf(parsed)
	if size > maxPatterns {
		return nil, fmt.Errorf("a pattern of %d steps, must have at most %d", size, maxPatterns)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{re, size}, nil
}

// sizeOf is about how many steps a pattern has once its repetitions and classes are expanded.
func sizeOf(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass: // ranges; Unicode classes have hundreds
		size = max(1, len(re.Rune)/2)
	case syntax.OpRepeat:
		return size + max(re.Min, re.Max, 1)*sizeOf(re.Sub[0])
	}
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	return size
}

// costOf is the cost, in steps, of matching a pattern against a text.
func (p *pattern) costOf(bytes int) int { return 1 + p.size/4 + (bytes+1)*p.size/40 }

// use makes matches use the patterns of a text. It does not start a match that would cost too much.
func (ps patterns) use() cel.ProgramOption {
	return cel.OptimizeRegex(&interpreter.RegexOptimization{
		Function: overloads.Matches, RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, text string) (interpreter.InterpretableCall, error) {
			p := ps[text]
			if p == nil {
				return nil, errors.New("a pattern that was not read")
			}
			return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
				in, ok := args[0].(types.String)
				if !ok {
					return types.MaybeNoSuchOverloadErr(args[0])
				}
				if p.costOf(len(in)) > MaxCost {
					giveUp()
				}
				return types.Bool(p.re.MatchString(string(in)))
			}), nil
		},
	})
}

// giveUp ends the evaluation in the way of CEL when its steps are used up.
func giveUp() {
	panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "would cost more than is left"})
}

// patternsOf parses the patterns in a text. It refuses a computed pattern, which would have to be
// parsed for each host.
func patternsOf(tree *ast.AST) (found patterns, wrong *Problem) {
	found = patterns{}
	all := 0
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if wrong != nil || e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		of := args[len(args)-1]
		refuse := func(message string) {
			at := tree.SourceInfo().GetStartLocation(of.ID())
			wrong = &Problem{Line: at.Line(), Column: at.Column() + 1, Message: message}
		}
		var text types.String
		if of.Kind() == ast.LiteralKind {
			text, _ = of.AsLiteral().(types.String)
		} else {
			refuse("the pattern of matches must be a text in the expression")
			return
		}
		p, err := makePattern(string(text))
		if err != nil {
			refuse("invalid matches argument: " + err.Error())
			return
		}
		if all += p.size; all > maxPatterns {
			refuse(fmt.Sprintf("the patterns come to %d steps, must come to at most %d", all, maxPatterns))
			return
		}
		found[string(text)] = p
	}))
	return found, wrong
}
