package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"cellgate/internal/config"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// completeWithin bounds the calls of a completion: somebody waits with the cursor in the line.
const completeWithin = 2 * time.Second

// values asks a gateway for the values that begin with a text.
type values func(ctx context.Context, conn grpc.ClientConnInterface, begin string) ([]string, error)

// completedFlags are the flags whose values completion asks a gateway for.
var completedFlags = map[string]values{
	"cell": cellNames, "host-cell": cellNames,
	"host": hostNames, "ignore-host": hostNames, "force-host": hostNames, "drain": hostNames,
}

// completedArgs are the arguments whose values completion asks a gateway for.
var completedArgs = map[string]values{"HOST": hostNames, "CELL": cellNames}

// flagValues has the values of flags that the gateway checks.
var flagValues = map[string][]string{
	"strategy": {"nova", "spread", "balanced", "pack"},
	"policy":   {"affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"},
}

// completeTree adds shell completion to a tree of commands, from the names that a gateway lists and
// flagValues.
func completeTree(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		completeTree(sub)
	}
	if cmd.Flag("addr") == nil {
		return
	}
	for flag, of := range completedFlags {
		if cmd.LocalFlags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, of.complete) // fails for a flag that has one
		}
	}
	for flag, values := range flagValues {
		if cmd.LocalFlags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	takes := strings.Fields(cmd.Use)[1:]
	if len(takes) == 0 {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		last := takes[len(takes)-1]
		if len(args) >= len(takes) && !strings.HasSuffix(last, "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		name := strings.Trim(takes[min(len(args), len(takes)-1)], "[].")
		if names := completedArgs[name]; names != nil {
			return names.complete(cmd, args, begin)
		}
		if strings.Contains(name, "|") {
			return strings.Split(name, "|"), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// complete gives the values that begin with a text. It gives none when no gateway answers: the shell
// would write an error into the line that somebody types.
func (v values) complete(cmd *cobra.Command, _ []string, begin string) (found []string, _ cobra.ShellCompDirective) {
	text := func(name string) string { return cmd.Flag(name).Value.String() }
	c := &client{addr: text("addr"), timeout: completeWithin, tls: config.ClientTLS{
		CA: text("ca"), ServerName: text("server-name"), Cert: text("cert"), Key: text("key"), TokenFile: text("token-file"),
	}}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
	defer cancel()
	conn, err := c.connect(cmd)
	if err == nil {
		defer func() { _ = conn.Close() }() // its calls are over
		found, err = v(ctx, conn, begin)
	}
	if err != nil {
		found = nil
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// beginning gives the texts of a list that begin with begin, sorted and without repeats.
func beginning(list []string, begin string) []string {
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" || !strings.HasPrefix(s, begin) })
	slices.Sort(list)
	return slices.Compact(list)
}

func cellNames(ctx context.Context, conn grpc.ClientConnInterface, begin string) (names []string, err error) {
	all, err := cellgatev1.NewCellsClient(conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
	for _, c := range all.GetCells() {
		names = append(names, c.GetCell())
	}
	return beginning(names, begin), err
}

// hostNames gives one page of the hosts whose names contain the text, and of them those that begin with
// it.
func hostNames(ctx context.Context, conn grpc.ClientConnInterface, begin string) (names []string, err error) {
	found, err := cellgatev1.NewHostsClient(conn).ListHosts(ctx, &cellgatev1.ListHostsRequest{NameContains: begin, PageSize: maxPage})
	for _, h := range found.GetHosts() {
		names = append(names, h.GetServiceHost())
	}
	return beginning(names, begin), err
}
