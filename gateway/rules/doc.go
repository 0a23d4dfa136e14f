// Package rules is what a configuration says to decide by: filters, weighers, Nova's options and expressions. Compile
// makes of it the schedule.Rules that queries carry, and the options that requests are translated under.
package rules
