// Package python reads, compares and prints values as Python 3 does, where Nova leaves this to Python: which texts are
// numbers to int and float, what json.loads reads, how values of different types compare, and which exceptions follow.
package python
