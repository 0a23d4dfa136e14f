package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cellgate/internal/config"
	"cellgate/internal/fault"
)

// Exit statuses.
const (
	exitDone        = 0
	exitRefused     = 1
	exitUsage       = 2
	exitUnreachable = 3
)

// usageError is an error that whoever typed the command must correct.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v\nSee '%s --help'.", e.err, e.command)
}

func (e *usageError) Unwrap() error { return e.err }

func usage(cmd *cobra.Command, err error) error {
	return &usageError{command: cmd.CommandPath(), err: err}
}

// unreachableError reports that no answer came from a gateway, or from who.
type unreachableError struct {
	who  string
	addr string
	// why says why no connection came about and what to do, when that is known.
	why string
	err error
}

func (e *unreachableError) Error() string {
	who := cmp.Or(e.who, "gateway")
	if e.why != "" {
		return fmt.Sprintf("no answer from the %s at %s: %s", who, e.addr, e.why)
	}
	return fmt.Sprintf("no answer from the %s at %s: %v", who, e.addr, e.err)
}

func (e *unreachableError) Unwrap() error { return e.err }

// serverError ended a serving process, or kept it from starting. Whoever runs the process must see
// every cause.
type serverError struct{ err error }

func (e *serverError) Error() string { return e.err.Error() }
func (e *serverError) Unwrap() error { return e.err }

// serves turns the errors of a command that serves into serverErrors, except those of its configuration
// and its flags.
func serves(work func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		err := work(cmd)
		if err == nil || isUsage(err) {
			return err
		}
		return &serverError{err}
	}
}

// isUsage reports whether whoever typed the command must change it.
func isUsage(err error) bool {
	var asked *usageError
	var problems *config.Problems
	return errors.As(err, &asked) || errors.As(err, &problems)
}

// usageArgs turns the errors of a check of arguments into usage errors, and those of flags that exclude
// or need each other. If their number is wrong, it names the arguments.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if _, names, some := strings.Cut(cmd.Use, " "); err == nil {
			err = cmd.ValidateFlagGroups()
		} else if some && strings.Contains(err.Error(), "arg(s)") {
			err = fmt.Errorf("%w; give %s", err, names)
		}
		if err != nil {
			return usage(cmd, err)
		}
		return nil
	}
}

// knownCommand refuses an unknown subcommand and names similar ones.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if alike := cmd.SuggestionsFor(args[0]); len(alike) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(alike, " or "))
	}
	return err
}

// group makes a command that only has subcommands. Without one it lists them.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.SuggestionsMinimumDistance = usageArgs(knownCommand), 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		names := joined(cmd.Commands(), (*cobra.Command).Name, ", ")
		if i := strings.LastIndex(names, ", "); i >= 0 {
			names = names[:i] + " or " + names[i+2:]
		}
		return usage(cmd, errors.New("say what to do: "+names))
	}
	return cmd
}

// unknownCommand gives an error when a command's arguments begin with an unknown subcommand; nil when
// they may be its own. A command that takes arguments owns them, unless the first is similar to a
// subcommand.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || !cmd.HasSubCommands() {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // letters that may differ
	if cmd.ValidateArgs(args[:1]) == nil && len(cmd.SuggestionsFor(args[0])) == 0 {
		return nil
	}
	return knownCommand(cmd, args)
}

// oneArgOr checks the argument of a command that also has subcommands.
func oneArgOr(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return cmp.Or(unknownCommand(cmd, args), cobra.MaximumNArgs(1)(cmd, args))
}

// newHelp replaces cobra's help command, which ends with success for a command that does not exist.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			at := root
			for i, name := range args {
				next, _, err := at.Find([]string{name})
				if err != nil || next == at {
					return usage(at, knownCommand(at, args[i:]))
				}
				at = next
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// exitStatus gives the exit status for a command's error.
func exitStatus(err error) int {
	var silent *unreachableError
	switch {
	case err == nil:
		return exitDone
	case isUsage(err), fault.KindOf(err) == fault.InvalidRequest:
		return exitUsage
	case errors.As(err, &silent):
		return exitUnreachable
	}
	return exitRefused
}

// wording writes an error for a person: without its kind, and with every wrong field. For a serving
// process that ends it has all causes.
func wording(err error) string {
	var e *fault.Error
	var server *serverError
	var several *unstartedError
	found := errors.As(err, &e)
	switch {
	case errors.As(err, &several):
		return several.Error()
	case found && len(e.Fields) > 1:
	case errors.As(err, &server):
		return chain(err)
	case !found:
		return err.Error()
	default:
		return strings.Replace(err.Error(), e.Error(), e.Message, 1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d fields are invalid:", len(e.Fields))
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "\n  %s: %s", f.Path, f.Problem)
	}
	return b.String()
}

// chain writes an error with all its causes on one line, without their kinds.
func chain(err error) string {
	text := err.Error()
	for _, k := range fault.Kinds() {
		text = strings.ReplaceAll(text, string(k)+": ", "")
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
