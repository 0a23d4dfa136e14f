package main

import (
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"cellgate/gateway/bus"
	"cellgate/gateway/rules"
	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
)

// keyFlag is a flag that sets a key of the configuration. It only keeps the text: the configuration
// reads it, so that one error has all problems.
type keyFlag struct {
	key   config.Key
	text  string
	given bool
}

func (f *keyFlag) String() string {
	if f.given {
		return f.text
	}
	return f.key.Default
}

func (f *keyFlag) Type() string {
	if f.key.Kind == config.Bool {
		return "bool"
	}
	return f.key.Kind.String()
}

// Set stores the flag's text. A list grows each time the flag is given.
func (f *keyFlag) Set(text string) error {
	switch {
	case f.given && f.key.Kind == config.Table:
		text = f.text + ";" + text
	case f.given && f.key.Kind == config.List:
		text = f.text + "," + text
	}
	f.text, f.given = text, true
	return nil
}

// bindKeys adds --config and a flag for each key of a section, of log and of telemetry. The function
// that it gives loads the configuration.
func bindKeys(cmd *cobra.Command, section string, env []string) func() (config.Config, error) {
	load := bindKeysWithDetails(cmd, section, env)
	return func() (config.Config, error) {
		c, _, err := load()
		return c, err
	}
}

// bindKeysWithDetails does the same as bindKeys, and gives the configuration's origins and notes too.
func bindKeysWithDetails(cmd *cobra.Command, section string, env []string) func() (config.Config, *configDetails, error) {
	file := cmd.Flags().String("config", "", "YAML file with the keys below")
	var flags []*keyFlag
	for _, k := range slices.Concat(config.Keys(section), config.Keys("log"), config.Keys("telemetry")) {
		f := &keyFlag{key: k}
		flag := cmd.Flags().VarPF(f, k.Flag, "", k.Help)
		if k.Kind == config.Bool {
			flag.NoOptDefVal = "true"
		}
		flags = append(flags, f)
	}
	cmd.Flags().SortFlags = false
	return func() (config.Config, *configDetails, error) {
		src := config.Source{File: *file, Env: env, Flags: map[string]string{}}
		switch section {
		case "gateway":
			src.Check = gatewayProblems
		case "agent":
			src.Check = hostProblems
		}
		for _, f := range flags {
			if f.given {
				src.Flags[f.key.Path] = f.text
			}
		}
		details := &configDetails{}
		if section == "gateway" || section == "dev" {
			src.Fill = func(c *config.Config, from config.Origins) []fault.Field {
				return details.fillFromNova(c, section, from)
			}
		}
		c, from, err := config.LoadWithOrigins(section, src)
		details.from = from
		return c, details, err
	}
}

// gatewayProblems reports filters and weighers that do not exist, invalid expressions, and invalid URLs
// of the message bus.
func gatewayProblems(c config.Config) []fault.Field {
	bad := append(rules.UnknownNames(c.Gateway.Filters, c.Gateway.Weighers),
		rules.CheckExpressions(c.Gateway.FilterExpression, c.Gateway.WeighExpression, c.Gateway.WeighMultiplier, len(c.Gateway.Legacy) > 0)...)
	for key, url := range map[string]string{"transport_url": c.Gateway.Bus.TransportURL, "notification_url": c.Gateway.Bus.NotifyURL} {
		if err := bus.CheckTransportURL(url); c.Gateway.Bus.Enabled && url != "" && err != nil {
			bad = append(bad, fault.Field{Path: "bus." + key, Problem: err.Error()})
		}
	}
	for i := range bad {
		bad[i].Path = "gateway." + bad[i].Path
	}
	return bad
}

// newLog makes the process's log.
func newLog(c config.Log, t terminal) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // config.Load has refused any other name
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(t.err, options)))
	}
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(t.err, options)))
}
