package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cellgate/internal/security"
)

func newToken() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "token",
		Short:   "Make tokens that callers show",
		Example: "  cellgate token new --role reader --name prometheus",
	})
	cmd.AddCommand(newTokenNew())
	return cmd
}

func newTokenNew() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a token: print it once, and the line for the tokens file",
		Long: `Make a token of 256 random bits. The first line printed is the token: give it to
its caller, in a file that nobody else can read; it is kept nowhere else. The
second line is for the file that gateway.tls.tokens or cell.tls.tokens names: it
holds the token's hash.`,
		Example: `  cellgate token new --role conductor --name nova-1 --expires 2050-01-01T00:00:00Z
  cellgate token new --role agent --name rack-12 --host rack12-h01 --host rack12-h02`,
		Args: usageArgs(cobra.NoArgs),
	}
	var role, name, expires string
	var hosts []string
	f := cmd.Flags()
	f.StringVar(&role, "role", "", "one of "+joined(security.Roles(), func(r security.Role) string { return string(r) }, ", "))
	f.StringVar(&name, "name", "", "whose token it is, for logs")
	f.StringArrayVar(&hosts, "host", nil, `with the role agent: a service host it speaks for, or the beginning of names and "*"; again for each`)
	f.StringVar(&expires, "expires", "", "when it ends, as 2030-01-31T00:00:00Z; empty for never")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		id := security.Identity{Role: security.Role(role), Name: name, Hosts: hosts}
		if expires != "" {
			end, err := time.Parse(time.RFC3339, expires)
			if err != nil || !end.After(time.Now()) {
				return usage(cmd, fmt.Errorf("--expires: %q is not a time to come like 2030-01-31T00:00:00Z", expires))
			}
			id.Expires = end
		}
		secret, line, err := security.NewToken(id)
		if err != nil {
			return usage(cmd, err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s", secret, line)
		return err
	}
	return cmd
}
