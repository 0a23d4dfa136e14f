// Package testca makes certificates for tests. It panics when it cannot.
package testca
