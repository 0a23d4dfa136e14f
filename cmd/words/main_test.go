package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSentences_MarkdownPage_CountsItsProse(t *testing.T) {
	page := "# A heading of words\n\nOne two three. Four `five six` seven, e.g. eight\nnine! Ten\n\n```\nno words here\n```\n\n" +
		"- [an item](of/a/list.md) here\n- another\n1. a third\n\n    code is left out\n\n| a label | one two three four five six. Seven `a\\|b` |\n|---|---|\n"
	var got []int
	for _, s := range sentences(page) {
		got = append(got, s.words)
	}
	if want := []int{3, 6, 1, 3, 1, 2, 6, 2}; !slices.Equal(got, want) {
		t.Errorf("sentences of %v words, want %v", got, want)
	}
}

func TestCheck_LongSentencesAndBannedMethods_AreFound(t *testing.T) {
	tree := fstest.MapFS{
		"good.md":      {Data: []byte("This page is short.\n")},
		"docs/long.md": {Data: []byte("Short.\n\n" + strings.Repeat("word ", 41) + ".\n")},
		"docs/dull.md": {Data: []byte(strings.Repeat("word ", 23) + ".\n")},
		"a/a.go":       {Data: []byte("package a\n\ntype T struct{}\n\nfunc (t *T) take() {}\nfunc (T) takeAll() {}\nfunc take() {}\n")},
		"a/a.pb.go":    {Data: []byte("package a\n\nfunc (T) of() {}\n")},
	}
	found, err := check(tree, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"page docs/long.md", "page docs/dull.md", "method a.T.take"} {
		if len(found[place]) != 1 {
			t.Errorf("%s: %v", place, found[place])
		}
	}
	if len(found) != 3 {
		t.Errorf("found %v", found)
	}
	if got := unexpected(found, "# why\npage docs/long.md\nmethod a.T.take\npage gone.md\n"); len(got) != 2 || !strings.HasPrefix(got[0], "docs/dull.md: 23.0 words") || !strings.Contains(got[1], "nothing needs page gone.md") {
		t.Errorf("unexpected: %q", got)
	}
}
