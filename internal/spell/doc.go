// Package spell finds what was meant by a name that is not there.
package spell
