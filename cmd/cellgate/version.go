package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says from which source, and with which Go, somebody built a binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  cellgate version -o json",
		Args:    usageArgs(cobra.NoArgs),
	}
	form := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := buildOf()
		if *form == "json" {
			return encode(cmd.OutOrStdout(), b)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "cellgate %s (revision %s, %s, %s)\n", b.Version, b.Revision, b.Go, b.Platform)
		return err
	}
	return cmd
}

// versionText gives the version and revision, for comparing binaries.
func versionText() string {
	b := buildOf()
	if b.Modified {
		b.Revision += "+"
	}
	return b.Version + " " + b.Revision
}

func buildOf() build {
	b := build{Version: "devel", Revision: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
