// Command telemetry-docs writes the tables of docs/reference/telemetry.md from the names in the code:
//
//	telemetry-docs FILE
//
// make gen runs it.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "telemetry-docs FILE")
		os.Exit(2)
	}
	if err := rewrite(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "telemetry-docs:", err)
		os.Exit(1)
	}
}
