package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// shard checks where a shard is stored: in a directory or in a database.
func (l *loader) shard(section, data, store string, insecure bool) {
	switch {
	case store == "":
		l.needed(section+".data", data)
		return
	case data != "":
		l.bad(section+".data", "is given with store: a shard is in a directory or in a database")
	}
	for _, problem := range StoreProblems(store, section == "cell", insecure) {
		l.bad(section+".store", "%s", problem)
	}
}

// StoreProblems says what is wrong with the URL of a shard's database. No problem quotes the URL, which
// may have a password. named: the URL must name a database. insecure allows a connection that may be
// unencrypted.
func StoreProblems(store string, named, insecure bool) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	u, err := url.Parse(store)
	if err != nil {
		return []string{"is not a URL"}
	}
	switch u.Scheme {
	case "postgres", "postgresql", "cockroach", "cockroachdb":
	default:
		return []string{"must begin with postgres:// or cockroach://"}
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		bad("has a password, which everybody sees who sees the configuration: put it into a file (store_password_file of a cell, or ~/.pgpass)")
	}
	if u.Host == "" && !u.Query().Has("host") {
		bad("names no host")
	}
	if named && strings.Trim(u.Path, "/") == "" {
		bad("names no database")
	}
	if insecure {
		return problems
	}
	hosts, err := openHosts(u)
	if err != nil {
		bad("cannot be read: its hosts, ports or parameters are not those of a database's URL")
	}
	for _, host := range hosts {
		bad("reaches %s without being sure of TLS: add sslmode=verify-full&sslrootcert=FILE, or allow it with insecure", host)
	}
	return problems
}

// openHosts lists the remote hosts of a URL that may be reached without TLS. It asks the driver's own
// parser, because host= overrides the authority, there may be several hosts, and sslmode=prefer tries
// both ways.
func openHosts(u *url.URL) (open []string, err error) {
	plain := *u
	plain.Scheme = "postgres"
	q := plain.Query()
	for _, file := range []string{"sslrootcert", "sslcert", "sslkey", "passfile"} {
		q.Del(file) // may be missing on the machine that checks
	}
	for name := range q {
		if strings.HasPrefix(name, "pool_") {
			q.Del(name) // options of the pool
		}
	}
	plain.RawQuery = q.Encode()
	c, err := pgconn.ParseConfig(plain.String())
	if err != nil {
		return nil, err // not shown: the error quotes the URL
	}
	ways := append([]*pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	seen := map[string]bool{}
	for _, way := range ways {
		local := strings.HasPrefix(way.Host, "/") || IsLoopback(way.Host) // a socket's directory, or this machine
		if way.TLSConfig == nil && !local && !seen[way.Host] {
			seen[way.Host] = true
			open = append(open, way.Host)
		}
	}
	return open, nil
}
