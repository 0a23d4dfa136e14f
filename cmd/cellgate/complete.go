package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"cellgate/internal/config"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// completeWithin bounds the calls of a completion: a person waits with the cursor in the line.
const completeWithin = 2 * time.Second

// values asks a gateway for what begins with a text.
type values func(ctx context.Context, conn grpc.ClientConnInterface, begin string) ([]string, error)

// completeTree has shells complete what the commands of a tree take: cells and hosts, which the
// gateway is asked for, and words of which there are few.
func completeTree(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		completeTree(sub)
	}
	if cmd.Flag("addr") == nil {
		return
	}
	for flag, of := range map[string]values{"cell": cellNames, "host": hostNames} {
		if cmd.LocalFlags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, of.complete) // fails for a flag that has one
		}
	}
	for flag, words := range map[string][]string{
		"strategy": {"nova", "spread", "balanced", "pack"}, "operation": {"build", "move", "evacuate", "unshelve", "live_migrate", "rebuild"},
		"policy": {"affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"},
	} {
		if cmd.LocalFlags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
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
		switch name := strings.Trim(takes[min(len(args), len(takes)-1)], "[]."); {
		case name == "HOST":
			return values(hostNames).complete(cmd, args, begin)
		case name == "CELL":
			return values(cellNames).complete(cmd, args, begin)
		case strings.Contains(name, "|"):
			return strings.Split(name, "|"), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// complete gives the values that begin with a text, and none where no gateway answers: an error
// would be written into the line that is being typed.
func (v values) complete(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	text := func(name string) string { return cmd.Flag(name).Value.String() }
	c := &client{addr: text("addr"), timeout: completeWithin, tls: config.ClientTLS{
		CA: text("ca"), ServerName: text("server-name"), Cert: text("cert"), Key: text("key"), TokenFile: text("token-file"),
	}}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
	defer cancel()
	dial, err := c.dialer(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	conn, err := dial(c.addr)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = conn.Close() }() // its calls are over
	found, err := v(ctx, conn, begin)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

func cellNames(ctx context.Context, conn grpc.ClientConnInterface, begin string) (names []string, err error) {
	all, err := cellgatev1.NewCellsClient(conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
	for _, c := range all.GetCells() {
		if strings.HasPrefix(c.GetCell(), begin) {
			names = append(names, c.GetCell())
		}
	}
	return names, err
}

// hostNames gives the names of hosts on one page of those with the text in their name.
func hostNames(ctx context.Context, conn grpc.ClientConnInterface, begin string) (names []string, err error) {
	found, err := cellgatev1.NewHostsClient(conn).ListHosts(ctx, &cellgatev1.ListHostsRequest{NameContains: begin, PageSize: maxPage})
	for _, h := range found.GetHosts() {
		if strings.HasPrefix(h.GetServiceHost(), begin) {
			names = append(names, h.GetServiceHost())
		}
	}
	return names, err
}
