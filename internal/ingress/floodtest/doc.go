// Package floodtest is a hostile gRPC client for tests: it begins many messages on one connection and
// completes none.
package floodtest
