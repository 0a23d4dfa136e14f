// Package wiretest encodes whole queries and decodes proposals, for tests of cells.
package wiretest
