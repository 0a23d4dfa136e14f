package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/config"
	"cellgate/internal/norace"
	"cellgate/internal/telemetry"
)

// repository is the path of the repository's root.
const repository = "../.."

// pages are the files of the documents.
func pages(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "deploy/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// Everything that the documents show exists: commands with their flags, make targets, configuration
// keys, variables, links and paths.
func TestDocsNameWhatIsThere(t *testing.T) {
	norace.Skip(t, norace.Pure)
	files := pages(t)
	d := newDocs(t)
	for _, file := range files {
		for _, problem := range d.check(file, readFile(t, file)) {
			t.Errorf("%s:%s", strings.TrimPrefix(file, repository+"/"), problem)
		}
	}
	t.Logf("%d files: %v", len(files), d.seen)
	for what, least := range map[string]int{"command": 30, "target": 30, "key": 40, "variable": 1, "link": 60, "path": 60} {
		if d.seen[what] < least {
			t.Errorf("only %d of a %s were found: this test does not see them any more", d.seen[what], what)
		}
	}
}

// Every YAML block that is a configuration has existing keys, with values of their types.
func TestDocs_BlocksOfConfiguration_HaveKnownKeys(t *testing.T) {
	blocks := 0
	for _, file := range pages(t) {
		for _, block := range configurationsOf(readFile(t, file)) {
			blocks++
			if problem := unreadable(t, block); problem != "" {
				t.Errorf("%s: %s", strings.TrimPrefix(file, repository+"/"), problem)
			}
		}
	}
	if blocks < 6 {
		t.Errorf("only %d blocks were found: this test does not see them any more", blocks)
	}
	for text, want := range map[string]string{
		"```yaml\ncell:\n  dta: x\n```":                       "dta",
		"1. so:\n\n   ```yaml\n   cell:\n     dta: x\n   ```": "dta",
		"```yaml\ngateway:\n  legacy: 5\n```":                 "gateway.legacy",
		"```yaml\ngateway:\n  grpc: x:1\n```":                 "",
	} {
		all := configurationsOf(text)
		if len(all) != 1 {
			t.Fatalf("%q has %d blocks", text, len(all))
		}
		if problem := unreadable(t, all[0]); !strings.Contains(problem, want) || (want == "") != (problem == "") {
			t.Errorf("%q: %q, want %q", text, problem, want)
		}
	}
}

var (
	yamlBlock     = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```")
	configuration = regexp.MustCompile(`^(?:gateway|cell|agent|dev|telemetry|log):\n`)
)

// configurationsOf gives a page's blocks of YAML that begin with a section of the configuration.
func configurationsOf(text string) (blocks []string) {
	for _, m := range yamlBlock.FindAllStringSubmatch(text, -1) {
		block := strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")[1:]
		if configuration.MatchString(block) {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// unreadable returns which keys of a partial configuration do not exist or have another type.
// Missing keys are allowed.
func unreadable(t *testing.T, block string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "block.yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load("gateway", config.Source{File: file})
	if err == nil {
		return ""
	}
	var problems []string
	for line := range strings.Lines(err.Error()) {
		if strings.Contains(line, "unknown key") || strings.Contains(line, "must be a") {
			problems = append(problems, strings.TrimSpace(line))
		}
	}
	return strings.Join(problems, "; ")
}

// The check finds mistakes.
func TestDocsCheckFindsWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"    cellgate slect --vcpus 4":                "slect",
		"    bin/cellgate select --vcpuss 4":          "unknown flag: --vcpuss",
		"```console\n$ cellgate claims get\n```":      "accepts 1 arg(s)",
		"```\nA=1 cellgate bench --callers x\n```":    "--callers",
		"say `cellgate cells --adress x`":             "unknown flag: --adress",
		"```\ncellgate select \\\n    --nothing\n```": "unknown flag: --nothing",
		"`make lod`":                                            "make lod",
		"    make load SPEED=7":                                 "SPEED",
		"`cell.dta` is the directory":                           "cell.dta",
		"`CELLGATE_CELL_DTA` too":                               "CELLGATE_CELL_DTA",
		"[x](nowhere.md)":                                       "nowhere.md",
		"[x](docs/reference/api.md#nothing-of-that-name)":       "nothing-of-that-name",
		"`gateway/nowhere.go`":                                  "gateway/nowhere.go",
		"    cellgate cell --config deploy/examples/cell9.yaml": "cell9.yaml",
	} {
		got := newDocs(t).check(filepath.Join(repository, "README.md"), text)
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%q gives %q, want one that says %q", text, got, want)
		}
	}
	for _, text := range []string{
		"    cellgate select --vcpus 4 --memory-mb 8192 # a comment --with\n", "```go\ncellgate nothing\n```", "`make load` and `SCENARIO=smoke make load`",
		"`cell.data`, `cell.tls`, `cell.queue` (a span)", "[x](docs/reference/api.md#sick-cells)", "`gateway/selection/merge.go`", "`cellgate claims confirm`", "cellgate chooses hosts",
	} {
		if got := newDocs(t).check(filepath.Join(repository, "README.md"), text); len(got) != 0 {
			t.Errorf("%q gives %q", text, got)
		}
	}
}

// docs checks documents against the program and the repository.
type docs struct {
	targets, makeText string
	keys, envs        map[string]bool
	seen              map[string]int
}

func newDocs(t *testing.T) *docs {
	t.Helper()
	d := &docs{targets: "\n" + readFile(t, repository+"/Makefile"), keys: map[string]bool{}, envs: map[string]bool{}, seen: map[string]int{}}
	d.makeText = d.targets + readFile(t, repository+"/loadtest/run.sh") + readFile(t, repository+"/loadtest/load.js") + readFile(t, repository+"/loadtest/scenarios.js")
	for _, section := range []string{"gateway", "cell", "agent", "dev", "telemetry", "log"} {
		for _, k := range config.Keys(section) {
			d.envs[k.Env] = true
			for path := k.Path; strings.Contains(path, "."); path = path[:strings.LastIndex(path, ".")] {
				d.keys[path] = true
			}
		}
	}
	for _, s := range telemetry.Spans() {
		d.keys[s.Name] = true
	}
	return d
}

var (
	linkOf     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	targetOf   = regexp.MustCompile(`(?:^|\s)make((?: +[A-Z_0-9]+=\S*)*) +([a-z][a-z-]*)((?: +[A-Z_0-9]+=\S*)*)`)
	keyOf      = regexp.MustCompile(`^(?:gateway|cell|agent|dev|telemetry|log)(?:\.[a-z][a-z_]*)+$`)
	envOf      = regexp.MustCompile(`CELLGATE_(?:GATEWAY|CELL|AGENT|DEV|TELEMETRY|LOG)_[A-Z_]*[A-Z]\b`)
	pathOf     = regexp.MustCompile(`^(?:cmd|gateway|cell|agent|schedule|shard|proto|internal|deploy|loadtest|docs|samples|systemtest)/[\w./-]*[\w/]$`)
	assignment = regexp.MustCompile(`^[A-Z_]+=\S*$`)
	variableOf = regexp.MustCompile(`([A-Z_0-9]+)=`)
)

// check returns a line for each thing in a document that does not exist.
func (d *docs) check(file, text string) (problems []string) {
	for _, p := range partsOf(text) {
		say := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%d: ", p.line)+fmt.Sprintf(format, args...))
		}
		if p.kind == prose {
			for _, m := range linkOf.FindAllStringSubmatch(p.text, -1) {
				d.link(file, m[1], say)
			}
			continue
		}
		for _, m := range targetOf.FindAllStringSubmatch(p.text, -1) {
			d.target(m[2], m[1]+m[3], say)
		}
		for _, env := range envOf.FindAllString(p.text, -1) {
			d.seen["variable"]++
			if !d.envs[env] && env != "CELLGATE_AGENT_NAME" {
				say("%s sets no key", env)
			}
		}
		words := wordsOf(p.text)
		d.command(words, p.kind == block, say)
		for _, w := range words {
			if pathOf.MatchString(w) && !strings.Contains(w, "NAME") {
				d.seen["path"]++
				if _, err := os.Stat(filepath.Join(repository, w)); err != nil {
					say("%s is not there", w)
				}
			}
			if p.kind == span && keyOf.MatchString(w) && len(words) == 1 && filepath.Ext(w) != ".go" && filepath.Ext(w) != ".yaml" {
				d.seen["key"]++
				if !d.keys[w] {
					say("%s is no key and no span", w)
				}
			}
		}
	}
	return problems
}

// link checks a link to another file, and to a heading in it.
func (d *docs) link(file, to string, say func(string, ...any)) {
	if strings.Contains(to, "://") {
		return
	}
	d.seen["link"]++
	path, heading, _ := strings.Cut(to, "#")
	if path != "" {
		file = filepath.Join(filepath.Dir(file), path)
	}
	text, err := os.ReadFile(file)
	if _, serr := os.Stat(file); serr != nil {
		say("the link %s leads nowhere", to)
		return
	}
	if heading == "" || err != nil {
		return
	}
	for _, p := range partsOf(string(text)) {
		if p.kind == prose && strings.HasPrefix(p.text, "#") && slug(p.text) == heading {
			return
		}
	}
	say("the link %s leads to no heading", to)
}

// slug returns the link target of a heading.
func slug(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127 && r != '…' && r != '×':
			return r
		}
		return -1
	}, heading)
}

func (d *docs) target(name, variables string, say func(string, ...any)) {
	d.seen["target"]++
	if !strings.Contains(d.targets, "\n"+name+":") {
		say("make %s: no such target", name)
	}
	for _, m := range variableOf.FindAllStringSubmatch(variables, -1) {
		if !strings.Contains(d.makeText, m[1]) {
			say("make %s: nothing reads %s", name, m[1])
		}
	}
}

// command examines a command line of cellgate: its subcommand, its flags and, where the
// line is whole, its arguments.
func (d *docs) command(words []string, whole bool, say func(string, ...any)) {
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) < 2 || words[0] != "cellgate" && words[0] != "bin/cellgate" || strings.Trim(words[1], "abcdefghijklmnopqrstuvwxyz") != "" {
		return
	}
	d.seen["command"]++
	line := strings.Join(words, " ")
	cmd, rest, err := newRoot(terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard}).Find(words[1:])
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil && (whole || cmd.HasSubCommands()) {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		say("%s: %v", line, err)
	}
}

// The kinds of a part.
const (
	prose = iota
	// span is between backquotes, block a command line of a block.
	span
	block
)

// part is a piece of a document: a line of prose, or code.
type part struct {
	kind, line int
	text       string
}

var spanOf = regexp.MustCompile("`([^`\n]+)`")

// partsOf splits a document. In console blocks, only text after a prompt is a command. In blocks
// without a language or in sh, every line is.
func partsOf(text string) (parts []part) {
	language, in, joined, prompt := "", false, "", false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			in, language = !in, strings.TrimPrefix(trimmed, "```")
			continue
		case in && !slices.Contains([]string{"", "sh", "bash", "console"}, language):
			continue
		case in || strings.HasPrefix(line, "    "):
			if joined == "" {
				prompt = strings.HasPrefix(trimmed, "$ ")
			}
			if language == "console" && in && !prompt {
				continue
			}
			joined += strings.TrimPrefix(trimmed, "$ ")
			if more, ok := strings.CutSuffix(joined, "\\"); ok {
				joined = more
				continue
			}
			parts = append(parts, part{block, i + 1, joined})
		default:
			parts = append(parts, part{prose, i + 1, line})
			for _, m := range spanOf.FindAllStringSubmatch(line, -1) {
				parts = append(parts, part{span, i + 1, m[1]})
			}
		}
		joined = ""
	}
	return parts
}

// wordsOf splits a command line as a shell does, up to a comment or another command.
func wordsOf(line string) (words []string) {
	word, quote, open := "", rune(0), false
	end := func() {
		if open {
			words = append(words, word)
		}
		word, open = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == ' ':
			end()
		case strings.ContainsRune("#|;&<>", r) && !open:
			return words
		default:
			word, open = word+string(r), true
		}
	}
	end()
	return words
}
