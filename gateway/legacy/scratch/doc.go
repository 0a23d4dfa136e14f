// Package scratch loads dumps of Nova's databases into a temporary database server of its
// own, and finds which of the databases is the cell's, the API's and Placement's.
//
//	scratch.go   Load: from files to URLs
//	dump.go      the kind of a dump file, and its text
//	mariadb.go   a MariaDB on a socket in a new folder
//	postgres.go  a PostgreSQL there
//
// The server listens on a socket in a folder that only this user can read. Close ends the
// server and deletes the folder.
package scratch
