// Package try says what cellgate would do with a Nova cloud: it reads the databases in read-only
// transactions, counts what still fits, and places the last request specs again on a host table
// in memory. Nothing is written anywhere.
package try
