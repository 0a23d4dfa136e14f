package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// usageError is an error of who typed the command.
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

// usageArgs makes the errors of a check of arguments, and those of flags that
// exclude or need each other, usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			err = cmd.ValidateFlagGroups()
		}
		if err != nil {
			return usage(cmd, err)
		}
		return nil
	}
}

// knownCommand refuses what is no subcommand and names those alike.
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

// exitStatus says how a command ended.
func exitStatus(err error) int {
	var asked *usageError
	var problems *config.Problems
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &asked), errors.As(err, &problems):
		return exitUsage
	}
	switch fault.KindOf(err) {
	case fault.InvalidRequest:
		return exitUsage
	case fault.CellUnavailable, fault.OutcomeUnknown:
		return exitUnreachable
	}
	return exitRefused
}

// wording is an error as a person reads it: without its kind, with every field
// that is wrong.
func wording(err error) string {
	var e *fault.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if s, ok := status.FromError(e.Cause); ok && e.Cause != nil && s.Code() != codes.OK {
		return err.Error() // not from cellgate: the text of gRPC says the most
	}
	if len(e.Fields) < 2 {
		return strings.Replace(err.Error(), e.Error(), e.Message, 1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d fields are invalid:", len(e.Fields))
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "\n  %s: %s", f.Path, f.Problem)
	}
	return b.String()
}
