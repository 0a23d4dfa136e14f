package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"cellgate/internal/suggest"
)

// valueError says what is wrong with a flag's value; flagProblem adds the flag.
type valueError struct{ text string }

func (e *valueError) Error() string { return e.text }

// choice is the value of a flag that takes one of a few texts, whatever the case of their letters.
type choice struct {
	text string
	of   []string
}

func (c *choice) String() string { return c.text }

func (*choice) Type() string { return "string" }

func (c *choice) Set(text string) error {
	i := slices.IndexFunc(c.of, func(of string) bool { return enumName(of) == enumName(text) })
	if i < 0 {
		return &valueError{fmt.Sprintf("%q is none of %s%s", text, strings.Join(c.of, ", "), suggest.MeantOf(text, c.of, 2))}
	}
	c.text = c.of[i]
	return nil
}

// enumName gives the name of an enum's value as protos write it.
func enumName(text string) string { return strings.ToUpper(strings.ReplaceAll(text, "-", "_")) }

// choiceFlag adds a flag that takes one of a few texts, with shell completion.
func choiceFlag(cmd *cobra.Command, name, unset string, of []string, help string) *string {
	c := &choice{unset, of}
	cmd.Flags().Var(c, name, help)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that has one
	return &c.text
}

// outputFlag adds -o to a command and its subcommands: table, json, and further forms.
func outputFlag(cmd *cobra.Command, forms ...string) *string {
	c := &choice{"table", append([]string{"table", "json"}, forms...)}
	cmd.PersistentFlags().VarP(c, "output", "o", strings.Join(c.of, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(c.of, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that has one
	return &c.text
}

// limit is how many rows of a list the caller wants; 0 for all.
type limit int

func (l *limit) String() string { return strconv.Itoa(int(*l)) }

func (*limit) Type() string { return "int" }

func (l *limit) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return &valueError{fmt.Sprintf("%q is not a whole number", text)}
	case n < 0:
		return &valueError{fmt.Sprintf("%d is below 0", n)}
	}
	*l = limit(n)
	return nil
}

// lines gives the limit to code for which 0 is no limit.
func (l *limit) lines() int {
	if *l == 0 {
		return 1 << 30
	}
	return int(*l)
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command, what string) *limit {
	l := limit(100)
	cmd.Flags().Var(&l, "limit", what+" to show; 0 for all")
	return &l
}
