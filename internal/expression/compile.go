package expression

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

const (
	// MaxBytes is the longest text.
	MaxBytes = 2048
	// MaxCost is the most steps that a host may take: about 0.3 ms, where a typical host takes 2 µs, or
	// 3 ms for a hostile text (BenchmarkHostile). It allows a loop over the hundred traits of a host.
	MaxCost = 2000
	// maxNodes and maxDepth bound the parsed form of a text, with its macros expanded.
	maxNodes = 1000
	maxDepth = 50
)

// Problem says what is wrong with a text.
type Problem struct {
	// Line and Column count from 1, Column in characters; both are 0 if the problem is the whole text.
	Line, Column int
	Message      string
}

func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
}

// environment is built once: it costs as much as some hundred texts.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction(overloads.Matches)))), matchesFunction(),
		cel.CustomTypeAdapter(adapter{}),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxBytes), cel.ParserRecursionLimit(maxDepth), cel.ExpressionNodeLimit(maxNodes),
		cel.ASTValidators(cel.ValidateComprehensionNestingLimit(1)),
	}
	for i := range variables {
		options = append(options, cel.Variable(variables[i].name, variables[i].kind))
	}
	return cel.NewCustomEnv(options...)
})

// Compile compiles a text that results in a bool. Its error is a *Problem, except for internal errors.
func Compile(text string) (*Program, error) { return compile(text, "a bool", types.BoolKind) }

// compile compiles a text that results in one of some kinds, or in a type that is known only for a
// host.
func compile(text, what string, kinds ...types.Kind) (*Program, error) {
	if len(text) > MaxBytes {
		return nil, &Problem{Message: fmt.Sprintf("has %d bytes, must have at most %d", len(text), MaxBytes)}
	}
	if strings.TrimSpace(text) == "" {
		return nil, &Problem{Message: "must not be empty"}
	}
	made, err := environment()
	if err != nil {
		return nil, fmt.Errorf("the expressions' environment: %w", err)
	}
	tree, issues := made.Compile(text)
	if list := issues.Errors(); len(list) > 0 {
		first := list[0]
		p := &Problem{Message: strings.ReplaceAll(first.Message, " (in container '')", "")}
		if root, unknown := strings.CutPrefix(p.Message, "undeclared reference to '"); unknown {
			p.Message += fieldsOf(strings.TrimSuffix(root, "'"))
		}
		if first.Location != nil && first.Location.Line() > 0 {
			p.Line, p.Column = first.Location.Line(), first.Location.Column()+1
		}
		if more := len(list) - 1; more > 0 {
			p.Message += fmt.Sprintf(" (and %d more)", more)
		}
		return nil, p
	}
	if p := ownMap(tree.NativeRep()); p != nil {
		return nil, p
	}
	own, p := patternsOf(tree.NativeRep())
	if p != nil {
		return nil, p
	}
	if k := tree.OutputType().Kind(); k != types.DynKind && !slices.Contains(kinds, k) {
		return nil, &Problem{Message: "must be " + what + ", is " + tree.OutputType().String()}
	}
	program, err := made.Program(tree, own.use(), cel.CostTracking(costs{own}), cel.CostLimit(MaxCost))
	if err != nil {
		return nil, &Problem{Message: err.Error()}
	}
	out := &Program{text: text, program: program, details: []string{"", unanswerable, tooCostly, missing}, byKey: map[string]int{}}
	out.learn(tree.NativeRep().Expr())
	return out, nil
}

// fieldsOf lists the fields of host or request: CEL knows the fields alone, not these roots.
func fieldsOf(root string) string {
	var has []string
	for i := range variables {
		if field, ok := strings.CutPrefix(variables[i].name, root+"."); ok {
			has = append(has, field)
		}
	}
	if len(has) == 0 {
		return ""
	}
	return " with such a field; it has " + strings.Join(has, ", ")
}

// ownMap refuses map literals in the text: CEL iterates over them in no order, so that an answer could
// differ from one evaluation to the next.
func ownMap(tree *ast.AST) (found *Problem) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.MapKind && found == nil {
			at := tree.SourceInfo().GetStartLocation(e.ID())
			found = &Problem{Line: at.Line(), Column: at.Column() + 1, Message: "must have no map of its own"}
		}
	}))
	return found
}

// learn records the keys that the text names, and whether it reads facts.
func (p *Program) learn(e ast.Expr) {
	key := func(name string) {
		if _, there := p.byKey[name]; !there {
			p.byKey[name] = len(p.details)
			p.details = append(p.details, missing+": "+name)
		}
	}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			p.facts = p.facts || e.AsIdent() == factsName
		case ast.SelectKind:
			key(e.AsSelect().FieldName())
		case ast.LiteralKind:
			if s, ok := e.AsLiteral().(types.String); ok {
				key(string(s))
			}
		}
	}))
}
