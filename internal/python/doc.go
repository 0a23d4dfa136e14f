// Package python parses texts as Python 3 does, where Nova leaves this to Python: which characters are
// white space to str.strip and str.split, and which texts are numbers to int and float.
package python
