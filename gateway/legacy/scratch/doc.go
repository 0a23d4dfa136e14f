// Package scratch loads dumps of Nova's databases into a database server of its own, which
// runs once, and finds which of the databases is the cell's, the API's and Placement's.
//
//	scratch.go    Load: from files to URLs
//	dump.go       what kind of dump a file is, and its text
//	mariadb.go    a MariaDB on a socket in a new folder
//	postgres.go   a PostgreSQL there
//
// The server listens on a socket in a folder that only this user can read. It ends, and the
// folder is deleted, with Close.
package scratch
