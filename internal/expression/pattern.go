package expression

import (
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

// maxPattern is how large a pattern may be, by sizeOf.
const maxPattern = 1000

// Overloads of matches: CEL has its own by other names.
const (
	matchesOf   = "matches_within_cost"
	textMatches = "string_matches_within_cost"
)

// matchesFunction is matches of CEL, which is not asked what would cost too much: CEL itself counts a
// call once it is over, and its own bound on patterns has no counted repetition.
func matchesFunction() cel.EnvOption {
	texts := []*cel.Type{cel.StringType, cel.StringType}
	return cel.Function(overloads.Matches,
		cel.Overload(matchesOf, texts, cel.BoolType, cel.BinaryBinding(matches)),
		cel.MemberOverload(textMatches, texts, cel.BoolType, cel.BinaryBinding(matches)))
}

// pattern is a regular expression, and its size.
type pattern struct {
	re   *regexp.Regexp
	size int
}

// patterns keeps those that were asked for last, of all texts.
var patterns texts[*pattern]

func makePattern(text string) (*pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := sizeOf(parsed)
	if size > maxPattern {
		return nil, fmt.Errorf("a pattern of %d steps, must have at most %d", size, maxPattern)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{re, size}, nil
}

// sizeOf is about how many steps a pattern has once its repetitions are written out.
func sizeOf(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpRepeat:
		return size + max(re.Min, re.Max, 1)*sizeOf(re.Sub[0])
	}
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	return size
}

// costOf is what it costs to look for a pattern in a text, in steps.
func (p *pattern) costOf(bytes int) int { return 1 + p.size/4 + (bytes+1)*p.size/40 }

func matches(text, of ref.Val) ref.Val {
	in, isText := text.(types.String)
	what, isPattern := of.(types.String)
	if !isText || !isPattern {
		return types.MaybeNoSuchOverloadErr(text)
	}
	p, err := patterns.compile(string(what), makeShort)
	if err != nil {
		return types.WrapErr(err)
	}
	if p.costOf(len(in)) > MaxCost {
		giveUp()
	}
	return types.Bool(p.re.MatchString(string(in)))
}

// makeShort is makePattern for a pattern that may come of facts.
func makeShort(text string) (*pattern, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("a pattern of %d bytes, must have at most %d", len(text), MaxBytes)
	}
	return makePattern(text)
}

// giveUp ends the evaluation as CEL does when its steps are spent.
func giveUp() {
	panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "would cost more than is left"})
}

// ownPatterns refuses patterns in the text that are none, or too large, and keeps the others.
func ownPatterns(tree *ast.AST) (found *Problem) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if found != nil || e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		of := args[len(args)-1]
		if of.Kind() != ast.LiteralKind {
			return
		}
		text, ok := of.AsLiteral().(types.String)
		if !ok {
			return
		}
		if _, err := patterns.compile(string(text), makePattern); err != nil {
			at := tree.SourceInfo().GetStartLocation(of.ID())
			found = &Problem{Line: at.Line(), Column: at.Column() + 1, Message: "invalid matches argument: " + err.Error()}
		}
	}))
	return found
}
