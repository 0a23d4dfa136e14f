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
	// MaxBytes is how long a text may be.
	MaxBytes = 2048
	// MaxCost is what a host may cost, in steps: some 0.3 ms, where a usual one takes 2 µs, and 3 ms for
	// one that is written to take long (BenchmarkHostile). It lets a loop go through the hundred traits
	// that a host has.
	MaxCost = 2000
	// maxNodes and maxDepth bound what a text is parsed to, its macros expanded.
	maxNodes = 1000
	maxDepth = 50
)

// Problem is what is wrong with a text.
type Problem struct {
	// Line counts from 1, Column characters from 1; both 0: the whole.
	Line, Column int
	Message      string
}

func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
}

// environment is made once: it costs as much as some hundred texts.
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

// Compile reads a text that gives a bool. An error is a *Problem, apart from defects of ours.
func Compile(text string) (*Program, error) { return compile(text, "a bool", types.BoolKind) }

// compile reads a text that gives one of some kinds, or what is known only of a host.
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

// fieldsOf says what there is below host or request: CEL knows their fields alone, and
// not them.
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

// ownMap refuses maps that the text makes: CEL goes through those in no order, so that
// an answer could differ from one time to the next.
func ownMap(tree *ast.AST) (found *Problem) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.MapKind && found == nil {
			at := tree.SourceInfo().GetStartLocation(e.ID())
			found = &Problem{Line: at.Line(), Column: at.Column() + 1, Message: "must have no map of its own"}
		}
	}))
	return found
}

// learn notes the keys that the text names, and whether it reads facts.
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
