package main

import (
	"errors"
	"fmt"
	"strings"

	"cellgate/internal/security"
)

// startup collects the errors that keep a process from starting, so that one report has all of them.
type startup struct{ causes []error }

// add adds an error. It adds the errors that a joined one has one by one.
func (s *startup) add(err error) { s.causes = append(s.causes, split(err)...) }

// err gives the errors as one: nil, the only error, or an *unstartedError.
func (s *startup) err() error {
	switch len(s.causes) {
	case 0:
		return nil
	case 1:
		return s.causes[0]
	}
	return &unstartedError{s.causes}
}

// split gives the errors that an error joins; none for nil.
func split(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, split(e)...)
	}
	return all
}

// unstartedError has several reasons why a process does not start.
type unstartedError struct{ causes []error }

func (e *unstartedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems keep this process from starting:", len(e.causes))
	for _, c := range e.causes {
		fmt.Fprintf(&b, "\n  %s", chain(c))
	}
	return b.String()
}

func (e *unstartedError) Unwrap() []error { return e.causes }

// worded adds its setting, and what to do, to each error of a TLS file. It adds section to the others.
func worded(err error, section string, setting func(key string) string) error {
	var all []error
	for _, e := range split(err) {
		if f := (*security.FileError)(nil); errors.As(e, &f) {
			e = fmt.Errorf("%s: %w; %s", setting(f.Key), e, f.Do())
		} else if section != "" {
			e = fmt.Errorf("%s: %w", section, e)
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// settings calls worded for a section of the configuration.
func settings(section string, err error) error {
	return worded(err, section, func(key string) string { return section + "." + key })
}
