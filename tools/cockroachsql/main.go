// Command cockroachsql parses the SQL of a Go package, and of the migrations and
// examples beside it, with the grammars of CockroachDB 20.1 and 25.2: the oldest line
// that is supported and a current one. It finds what one of them cannot read; what the
// words mean there, types and functions included, it does not know.
//
// It is a module of its own: nothing else needs a parser, and this one brings the
// dependencies of its time.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	oldest "github.com/auxten/postgresql-parser/pkg/sql/parser"
	newest "github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
)

const usage = `Usage: cockroachsql DIR [FILE.md ...]

Parses each constant statement of the Go package in DIR, each statement of
DIR/migrations/*.sql, and each block of SQL in the files.`

// onlyPostgres are statements that CockroachDB is not sent.
var onlyPostgres = map[string]string{
	"SET LOCAL plan_cache_mode = force_custom_plan": "server.filters says nothing to CockroachDB",
}

// grammars are those of the oldest line that is supported, and of a current one.
var grammars = []struct {
	version string
	parse   func(sql string) error
}{
	{"20.1", func(sql string) error { _, err := oldest.Parse(sql); return err }},
	{"25.2", func(sql string) error { _, err := newest.Parse(sql); return err }},
}

// statement is some SQL and where it stands.
type statement struct{ where, text string }

// starts tells SQL from other texts.
var starts = regexp.MustCompile(`^\s*(?:--[^\n]*\n\s*)*(?:SELECT|INSERT|UPSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|TRUNCATE|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET|SHOW) `)

func main() {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	found, err := collect(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cockroachsql:", err)
		os.Exit(1)
	}
	if bad := check(found); bad > 0 {
		fmt.Fprintf(os.Stderr, "cockroachsql: %d errors in %d statements\n", bad, len(found))
		os.Exit(1)
	}
	fmt.Printf("%d statements are in the grammars of CockroachDB 20.1 and 25.2\n", len(found))
}

// collect gives every statement there is; none at all is an error.
func collect(dir string, pages []string) ([]statement, error) {
	found, err := ofPackage(dir)
	if err != nil {
		return nil, err
	}
	migrations, err := filepath.Glob(filepath.Join(dir, "migrations", "*.sql"))
	if err != nil {
		return nil, err
	}
	for _, name := range migrations {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, part := range strings.Split(strings.ReplaceAll(string(text), "{{key}}", "text"), ";\n") {
			if strings.TrimSpace(part) != "" {
				found = append(found, statement{name, part})
			}
		}
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			found = append(found, statement{name, block[1]})
		}
	}
	if len(migrations) == 0 || len(found) == len(migrations) {
		return nil, fmt.Errorf("%s has no statements or no migrations", dir)
	}
	return found, nil
}

// check prints what cannot be read, and gives how many those are. An exception that
// nothing needs is one too.
func check(found []statement) int {
	bad, needed := 0, map[string]bool{}
	for _, s := range found {
		if _, known := onlyPostgres[s.text]; known {
			needed[s.text] = true
			continue
		}
		for _, g := range grammars {
			if err := g.parse(s.text); err != nil {
				bad++
				fmt.Fprintf(os.Stderr, "%s: CockroachDB %s: %v\n%s\n\n", s.where, g.version, err, s.text)
			}
		}
	}
	for text := range onlyPostgres {
		if !needed[text] {
			bad++
			fmt.Fprintf(os.Stderr, "main.go: an exception without its statement: %s\n", text)
		}
	}
	return bad
}
