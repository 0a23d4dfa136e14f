// Package systemtest holds tests of the parts together: real cells over embedded
// stores and a real gateway, in one process and in virtual time, with the replies
// between them lost one by one. There is nothing here but tests.
package systemtest
