package main

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// constants evaluates texts that are put together of literals and names.
type constants map[string]ast.Expr

func (c constants) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0)), true
		}
	case *ast.BinaryExpr:
		left, known := c.text(e.X)
		right, too := c.text(e.Y)
		return left + right, e.Op == token.ADD && known && too
	case *ast.Ident:
		if value, ok := c[e.Name]; ok {
			return c.text(value)
		}
	case *ast.ParenExpr:
		return c.text(e.X)
	}
	return "", false
}

// ofPackage gives the constant statements of a Go package without its tests, each
// once. A part of a text that is put together at run time is none.
func ofPackage(dir string) ([]statement, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset, known := token.NewFileSet(), constants{}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i, name := range v.Names {
					if i < len(v.Values) {
						known[name.Name] = v.Values[i]
					}
				}
			}
			return true
		})
	}
	var found []statement
	seen := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := known.text(e)
			if _, sum := e.(*ast.BinaryExpr); !ok {
				return !sum
			}
			if starts.MatchString(text) && !seen[text] && !format(text) {
				seen[text] = true
				found = append(found, statement{fset.Position(e.Pos()).String(), text})
			}
			return false
		})
	}
	return found, nil
}

// format reports whether a text is one for fmt.
func format(text string) bool { return strings.Contains(text, "%d") || strings.Contains(text, "%s") }
