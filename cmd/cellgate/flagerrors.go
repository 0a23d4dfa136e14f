package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cellgate/internal/suggest"
)

// flagProblem explains a mistyped flag: which flag may be meant, or what form its value must have.
func flagProblem(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name, known := unknown.GetSpecifiedName(), []string(nil)
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		text := suggest.Nearest(name, known, 2)
		if text != "" {
			text = "--" + text
		}
		return fmt.Errorf("unknown flag: --%s%s", name, suggest.Meant(text))
	case errors.As(err, &bad):
		if wrong := (*valueError)(nil); errors.As(bad.Unwrap(), &wrong) {
			return fmt.Errorf("--%s: %w", bad.GetFlag().Name, wrong)
		}
		if want := valueForms[bad.GetFlag().Value.Type()]; want != "" {
			return fmt.Errorf("--%s: %q is not %s", bad.GetFlag().Name, bad.GetValue(), want)
		}
		return fmt.Errorf("--%s: %q: %w", bad.GetFlag().Name, bad.GetValue(), bad.Unwrap())
	}
	return err
}

// valueForms says what a flag's value must be, by pflag's type of the flag.
var valueForms = map[string]string{
	"bool": "true or false", "duration": "a duration as 30s, 10m or 2h",
	"int": "a whole number", "int32": "a whole number of 32 bits", "int64": "a whole number", "uint64": "a whole number of 0 or more", "uint": "a whole number of 0 or more",
	"float64": "a number", "stringToInt": "NAME=NUMBER", "stringToInt64": "NAME=NUMBER", "stringToString": "NAME=VALUE",
}

// noneOf says that a flag does not have this value, and which one may be meant.
func noneOf(flag, value string, known []string) error {
	return fmt.Errorf("%s: %q is none of %s%s", flag, value, strings.Join(known, ", "), suggest.MeantOf(value, known, 2))
}
