package main

import (
	"context"
	"io"
	"os"

	"cellgate/internal/lifecycle"
)

// terminal is what a command reads and writes besides its flags.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	// env is the environment, as os.Environ gives it.
	env []string
}

func main() {
	lifecycle.TuneGC()
	ctx, stop := lifecycle.Signals(context.Background())
	code := run(ctx, os.Args[1:], terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ()})
	stop()
	os.Exit(code)
}
