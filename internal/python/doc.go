// Package python reads texts as Python 3 does, where Nova leaves that to Python: which
// characters are space to str.strip and str.split, and which texts are numbers to int
// and float.
package python
