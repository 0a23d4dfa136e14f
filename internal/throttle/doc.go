// Package throttle writes log lines of things that come many times, once an interval.
package throttle
