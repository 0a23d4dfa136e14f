// Package try reports what cellgate would do with a Nova cloud. It reads the databases in
// read-only transactions, counts what still fits, and places the last request specs again on a
// host table in memory. It writes nothing.
package try
