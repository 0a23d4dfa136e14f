// Package testca makes certificates for tests. It panics on errors.
package testca
