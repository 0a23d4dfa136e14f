// Package samples is the bundled sample: requests in the form clients send them,
// written for the fleet that README.md describes, with what is to come of each.
package samples
