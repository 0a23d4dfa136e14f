// Package throttle writes log lines about frequent events at most once in an interval.
package throttle
