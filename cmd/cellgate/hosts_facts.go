package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/gateway/rest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newHostsFacts(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "facts HOST [NAMESPACE]",
		Short: "Show, put or delete what services say of a host",
		Long: `Show what services, and the host itself, say of a host, by namespace; put a
namespace, as a whole, or delete it. Expressions read it (docs/explanation/facts.md).`,
		Example: `  cellgate hosts facts 710c6178-bcf9-40bc-9303-112cd17ef687
  echo '{"free_gb": 800}' | cellgate hosts facts 710c6178-bcf9-40bc-9303-112cd17ef687 cinder --put -
  cellgate hosts facts 710c6178-bcf9-40bc-9303-112cd17ef687 cinder --delete`,
		Args: usageArgs(cobra.RangeArgs(1, 2)),
	}
	c := newClient(cmd, t)
	f := cmd.Flags()
	put := f.String("put", "", "put the JSON object in this file, - for standard input")
	del := f.Bool("delete", false, "delete the namespace")
	cell := f.String("cell", "", "where the host is, for --put and --delete")
	ifGeneration := f.Int64("if-generation", 0, "put or delete only a namespace of this generation (-1: only one that is not there)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		changes := *del || *put != ""
		switch {
		case *del && *put != "":
			return usage(cmd, errors.New("--put and --delete exclude each other"))
		case changes && len(args) < 2:
			return usage(cmd, errors.New("--put and --delete need a NAMESPACE"))
		case !changes && (*cell != "" || *ifGeneration != 0):
			return usage(cmd, errors.New("--cell and --if-generation are for --put and --delete"))
		}
		switch {
		case *del:
			req := &cellgatev1.DeleteFactsRequest{HostUuid: args[0], Namespace: args[1], Cell: *cell, IfGeneration: *ifGeneration}
			return ask(c, cmd, cellgatev1.NewHostsClient, cellgatev1.HostsClient.DeleteFacts, req, func(p *page, m *cellgatev1.DeleteFactsResponse) {
				p.printf("namespace %s is gone, in cell %s\n", args[1], m.GetCell())
			})
		case *put != "":
			facts, err := readFacts(*put, cmd.InOrStdin())
			if err != nil {
				return usage(cmd, err)
			}
			req := &cellgatev1.PutFactsRequest{HostUuid: args[0], Namespace: args[1], Facts: facts, Cell: *cell, IfGeneration: *ifGeneration}
			return ask(c, cmd, cellgatev1.NewHostsClient, cellgatev1.HostsClient.PutFacts, req, func(p *page, m *cellgatev1.PutFactsResponse) {
				p.printf("namespace %s is of generation %d, in cell %s\n", args[1], m.GetNamespace().GetGeneration(), m.GetCell())
			})
		}
		return ask(c, cmd, cellgatev1.NewHostsClient, cellgatev1.HostsClient.GetHost, &cellgatev1.GetHostRequest{HostUuid: args[0]}, func(p *page, m *cellgatev1.GetHostResponse) {
			showFacts(p, m.GetHost(), strings.Join(args[1:], ""))
		})
	}
	return cmd
}

// readFacts reads a JSON object from a file, or from standard input for "-".
func readFacts(name string, stdin io.Reader) (*structpb.Struct, error) {
	text, err := readInput(name, stdin)
	if err != nil {
		return nil, err
	}
	facts := &structpb.Struct{}
	if err := rest.ReadJSON(text, facts); err != nil {
		return nil, fmt.Errorf("%s is no JSON object: %s", name, wording(err))
	}
	return facts, nil
}

// readInput reads a file, or standard input for "-". It reads at most 16 MiB, more than a gateway
// accepts.
func readInput(name string, stdin io.Reader) ([]byte, error) {
	const most = 16 << 20
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, most))
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was read
	return io.ReadAll(io.LimitReader(file, most))
}

// showFacts prints a host's namespaces, or one of them.
func showFacts(p *page, h *cellgatev1.Host, only string) {
	shown := 0
	for _, n := range h.GetNamespaces() {
		if only != "" && n.GetName() != only {
			continue
		}
		shown++
		by := fmt.Sprintf("generation %d", n.GetGeneration())
		if n.GetByAgent() {
			by = "by its agent"
		}
		text, err := json.MarshalIndent(n.GetFacts().AsMap(), "", "  ")
		if err != nil { // a number that is none
			text = []byte(err.Error())
		}
		p.printf("%s (%s)\n%s\n", n.GetName(), by, text)
	}
	switch {
	case shown > 0:
	case only != "":
		p.printf("host %s has no namespace %s\n", h.GetServiceHost(), only)
	default:
		p.printf("host %s has no facts\n", h.GetServiceHost())
	}
}
