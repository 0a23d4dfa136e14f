// Package rules compiles the configuration of decisions: filters, weighers, Nova's options and expressions. Compile
// makes the schedule.Rules that queries carry, and the options with which requests are translated.
package rules
