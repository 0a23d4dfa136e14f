// Command config-docs writes docs/reference/configuration.md from the keys of internal/config.
// make gen runs it.
package main

import (
	"fmt"
	"os"

	"cellgate/internal/config"
)

func main() {
	if err := os.WriteFile(os.Args[1], []byte(config.Reference()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "config-docs:", err)
		os.Exit(1)
	}
}
