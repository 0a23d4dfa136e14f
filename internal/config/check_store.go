package config

import (
	"net/url"
	"strings"
)

// shard checks where a shard is: a directory or a database.
func (l *loader) shard(section, data, store string, insecure bool) {
	switch {
	case store == "":
		l.needed(section+".data", data)
		return
	case data != "":
		l.bad(section+".data", "is given with store: a shard is in a directory or in a database")
	}
	path := section + ".store"
	u, err := url.Parse(store)
	if err != nil {
		l.bad(path, "is not a URL") // its text may have a password
		return
	}
	switch u.Scheme {
	case "postgres", "postgresql", "cockroach", "cockroachdb":
	default:
		l.bad(path, "must begin with postgres:// or cockroach://")
		return
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		l.bad(path, "has a password, which everybody sees who sees the configuration: put it into a file (store_password_file of a cell, or ~/.pgpass)")
	}
	if u.Hostname() == "" && !u.Query().Has("host") {
		l.bad(path, "names no host")
	}
	if section == "cell" && strings.Trim(u.Path, "/") == "" {
		l.bad(path, "names no database")
	}
	switch mode := u.Query().Get("sslmode"); mode {
	case "require", "verify-ca", "verify-full":
	default:
		if host := u.Hostname(); host != "" && !IsLoopback(host) && !insecure {
			l.bad(path, "reaches %s without being sure of TLS: add sslmode=verify-full&sslrootcert=FILE, or allow it with insecure", host)
		}
	}
}
