// Command telemetry-docs writes what docs/ shows of telemetry: the tables of
// docs/reference/telemetry.md, from the names in the code, and docs/trace.svg, from the
// spans of a real request. make gen and make trace-picture run it.
package main

import (
	"fmt"
	"os"
)

const usage = `usage:
  telemetry-docs page FILE           write the generated part of a page anew
  telemetry-docs trace SPANS SVG     draw the last trace of a file of spans`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "telemetry-docs:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "page":
		return rewrite(args[1])
	case len(args) == 3 && args[0] == "trace":
		spans, err := readTrace(args[1])
		if err != nil {
			return err
		}
		return os.WriteFile(args[2], []byte(draw(spans)), 0o644)
	}
	return fmt.Errorf("%s", usage)
}
