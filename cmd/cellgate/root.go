package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// run executes a command line and gives its exit status.
func run(ctx context.Context, args []string, t terminal) int {
	folds := isTerminal(t.err)
	t.err = &sharedWriter{to: t.err} // several goroutines write the log and the command's messages
	root := newRoot(t)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		for _, line := range strings.Split("cellgate: "+wording(err), "\n") {
			if folds {
				line = strings.Join(broken(line, pageWidth), "\n")
			}
			fmt.Fprintln(t.err, line)
		}
		if form, _ := cmd.Flags().GetString("output"); form == "name" { // the other forms show it
			if id := metadataOf(err, "decision_id"); id != "" {
				fmt.Fprintln(t.err, "decision "+id)
			}
		}
	}
	return exitStatus(err)
}

func newRoot(t terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "cellgate",
		Short: "Places virtual machines on the hosts of many cells",
		Long: `cellgate chooses a host for each instance over all cells, as Nova's scheduler
would over one, and claims it.

Exit status: 0 done, 1 refused by the system (no valid host), 2 wrong usage,
3 no answer from the gateway.`,
		Example:       "  cellgate dev --cells 3 --hosts 1000 --data ./data --sample",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(knownCommand),
		// In a suggested command so many letters may differ.
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(t.in)
	root.SetOut(t.out)
	root.SetErr(t.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// After a mistyped subcommand, its flags come to the command above it.
		if unknown := unknownCommand(cmd, cmd.Flags().Args()); unknown != nil {
			err = unknown
		}
		return usage(cmd, flagProblem(cmd, err))
	})
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(
		newDev(t), newGateway(t), newCell(t), newAgent(t),
		newSelect(t), newExplain(t), newCapacity(t), newDrain(t), newTop(t), newCells(t), newHosts(t), newClaims(t), newDecisions(t), newFindings(t), newBench(t), newDoctor(t), newTry(t), newImport(t), newPlacement(t), newMigrate(), newToken(), newVersion(),
	)
	completeTree(root)
	return root
}
