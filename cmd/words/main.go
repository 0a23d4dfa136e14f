package main

import (
	"bufio"
	_ "embed"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	mostAverage = 22.0
	mostWords   = 40
)

// bannedMethods do not say what the method does, or to what.
var bannedMethods = []string{"take", "tell", "look", "of", "said", "end"}

// bannedNames matches identifiers with a camel-case part that does not say what a value holds.
var bannedNames = regexp.MustCompile(`(^|_)(said|told|heard|unsaid)([^a-z]|$)|(Said|Told|Heard|Unsaid)([^a-z]|$)`)

// exceptions are the places that may have a violation: "page PATH", "method FOLDER.Type.name" or
// "name FOLDER.identifier".
//
//go:embed exceptions.txt
var exceptions string

func main() {
	all := flag.Bool("all", false, "print each page's numbers")
	flag.Parse()
	found, err := check(os.DirFS("."), *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	problems := unexpected(found, exceptions)
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// unexpected gives the violations that the exceptions do not list, by place, and the exceptions that no
// violation needs.
func unexpected(found map[string][]string, exceptions string) (problems []string) {
	listed := map[string]bool{}
	for line := range strings.Lines(exceptions) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			listed[line] = true
		}
	}
	for _, place := range slices.Sorted(maps.Keys(found)) {
		if !listed[place] {
			problems = append(problems, found[place]...)
		}
		delete(listed, place)
	}
	for _, place := range slices.Sorted(maps.Keys(listed)) {
		problems = append(problems, "cmd/words/exceptions.txt: nothing needs "+place)
	}
	return problems
}

// check gives the violations by place.
func check(tree fs.FS, all bool) (map[string][]string, error) {
	found := map[string][]string{}
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "bin" || d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "third_party"):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			text, err := fs.ReadFile(tree, path)
			if err != nil {
				return err
			}
			if problems := checkPage(path, string(text), all); len(problems) > 0 {
				found["page "+path] = problems
			}
		case filepath.Ext(path) == ".go" && !strings.Contains(path, ".pb."):
			text, err := fs.ReadFile(tree, path)
			if err != nil {
				return err
			}
			return checkCode(path, text, found)
		}
		return nil
	})
	return found, err
}

func checkPage(path, text string, all bool) (problems []string) {
	words, n := 0, 0
	for _, s := range sentences(text) {
		words, n = words+s.words, n+1
		if s.words > mostWords {
			problems = append(problems, fmt.Sprintf("%s:%d: a sentence of %d words, at most %d: %s …", path, s.line, s.words, mostWords, s.begin))
		}
	}
	average := float64(words) / float64(max(n, 1))
	if all {
		fmt.Printf("%s: %d sentences, %.1f words each, %d too long\n", path, n, average, len(problems))
	}
	if average > mostAverage {
		problems = append(problems, fmt.Sprintf("%s: %.1f words a sentence, at most %v", path, average, mostAverage))
	}
	return problems
}

func checkCode(path string, text []byte, found map[string][]string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	checkMethods(path, set, file, found)
	if !ast.IsGenerated(file) {
		checkNames(path, set, file, found)
	}
	return nil
}

func checkMethods(path string, set *token.FileSet, file *ast.File, found map[string][]string) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || !slices.Contains(bannedMethods, f.Name.Name) {
			continue
		}
		receiver := f.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if generic, ok := receiver.(*ast.IndexExpr); ok {
			receiver = generic.X
		}
		place := fmt.Sprintf("method %s.%v.%s", filepath.Dir(path), receiver, f.Name.Name)
		found[place] = append(found[place], fmt.Sprintf("%v: no method is named %s: name what it does to what", set.Position(f.Pos()), f.Name.Name))
	}
}

// checkNames checks the identifiers that a file declares. It skips uses of another package's
// identifiers.
func checkNames(path string, set *token.FileSet, file *ast.File, found map[string][]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		for _, name := range declared(n) {
			if bannedNames.MatchString(name.Name) {
				place := fmt.Sprintf("name %s.%s", filepath.Dir(path), name.Name)
				found[place] = append(found[place], fmt.Sprintf("%v: %s: name what it holds", set.Position(name.Pos()), name.Name))
			}
		}
		return true
	})
}

// declared gives the identifiers that a node itself declares, without those of its children.
func declared(n ast.Node) (names []*ast.Ident) {
	var assigned []ast.Expr
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.LabeledStmt:
		return []*ast.Ident{n.Label}
	case *ast.ImportSpec:
		if n.Name != nil {
			return []*ast.Ident{n.Name}
		}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			assigned = n.Lhs
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			assigned = []ast.Expr{n.Key, n.Value}
		}
	}
	for _, e := range assigned {
		if name, ok := e.(*ast.Ident); ok {
			names = append(names, name)
		}
	}
	return names
}

// sentence is a sentence of a page: where and with which words it begins, and how many words it has.
type sentence struct {
	line, words int
	begin       string
}

// proseCell is the least number of words of a table's cell that counts as prose.
const proseCell = 8

// sentences splits the prose of a Markdown page into sentences: paragraphs, items of lists and prose in
// tables, without code and headings. A period ends a sentence when a blank and no small letter follow.
func sentences(page string) (all []sentence) {
	line, fenced := 0, false
	var block []string
	began := 0
	flush := func() {
		for _, text := range split(strings.Join(block, " ")) {
			if n := countWords(text); n > 0 {
				all = append(all, sentence{began, n, strings.Join(strings.Fields(text)[:min(6, len(strings.Fields(text)))], " ")})
			}
		}
		block = nil
	}
	for lines := bufio.NewScanner(strings.NewReader(page)); lines.Scan(); {
		text := lines.Text()
		line++
		trimmed := strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			flush()
			fenced = !fenced
		case fenced:
		case trimmed == "", strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "<"), len(block) == 0 && strings.HasPrefix(text, "    "):
			flush()
		case strings.HasPrefix(trimmed, "|"):
			flush()
			for _, cell := range strings.Split(strings.ReplaceAll(trimmed, `\|`, "/"), "|") {
				if countWords(cell) >= proseCell {
					block, began = []string{cell}, line
					flush()
				}
			}
		default:
			if isItem(trimmed) {
				flush()
				_, trimmed, _ = strings.Cut(trimmed, " ")
			}
			if len(block) == 0 {
				began = line
			}
			block = append(block, trimmed)
		}
	}
	flush()
	return all
}

// isItem reports whether a line begins an item of a list.
func isItem(line string) bool {
	mark, _, found := strings.Cut(line, " ")
	return found && (mark == "-" || mark == "*" || mark != "." && strings.Trim(mark, "0123456789") == "." && len(mark) > 1)
}

func split(text string) (all []string) {
	from := 0
	runes := []rune(text)
	for i, r := range runes {
		if !strings.ContainsRune(".!?", r) {
			continue
		}
		next := i + 1
		for next < len(runes) && strings.ContainsRune(`)"'*_`+"`", runes[next]) {
			next++
		}
		if next+1 < len(runes) && (runes[next] != ' ' || runes[next+1] >= 'a' && runes[next+1] <= 'z') {
			continue
		}
		all, from = append(all, string(runes[from:next])), next
	}
	return append(all, string(runes[from:]))
}

// countWords counts words. Code counts as one word, a link's target as none. A text of code alone has
// none.
func countWords(text string) (n int) {
	if spans := strings.Split(text, "`"); len(spans) > 2 {
		prose := ""
		for i := 0; i < len(spans); i += 2 {
			prose += spans[i]
		}
		if strings.Trim(prose, " ,.") == "" {
			return 0
		}
	}
	var b strings.Builder
	code, target := false, 0
	for i, r := range text {
		switch {
		case r == '`':
			if code = !code; code {
				b.WriteString("x")
			}
		case code:
		case r == '(' && i > 0 && text[i-1] == ']':
			target++
		case target > 0 && r == ')':
			target--
		case target > 0:
		default:
			b.WriteRune(r)
		}
	}
	for _, w := range strings.Fields(b.String()) {
		if strings.ContainsFunc(w, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }) {
			n++
		}
	}
	return n
}
