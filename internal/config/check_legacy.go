package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// checkLegacy checks the cells that are under upgrade.
func (l *loader) checkLegacy(g Gateway) {
	seen := map[string]int{}
	for i, c := range g.Legacy {
		path := fmt.Sprintf("gateway.legacy[%d]", i)
		l.unlike(path+".cell", c.Cell, i, seen)
		if c.Cell != "" && !slices.ContainsFunc(g.Cells, func(o GatewayCell) bool { return o.Name == c.Cell }) {
			l.bad(path+".cell", "%q is none of gateway.cells", c.Cell)
		}
		if first := slices.IndexFunc(g.Legacy, func(o LegacyCell) bool { return o.Database == c.Database }); c.Database != "" && g.Legacy[first].Cell != c.Cell {
			l.bad(path+".database", "is that of cell %s already", g.Legacy[first].Cell) // it may have a password
		}
		for _, problem := range legacyProblems(c.Database, c.CA, c.Insecure) {
			l.bad(path+".database", "%s", problem)
		}
		if c.API != "" {
			for _, problem := range legacyProblems(c.API, c.APICA, c.Insecure) {
				l.bad(path+".api", "%s", problem)
			}
		}
		l.legacyTimes(path, c)
	}
}

// legacyTimes checks that rows of the greatest allowed age do not make services look down that are up.
func (l *loader) legacyTimes(path string, c LegacyCell) {
	refresh := cmp.Or(c.Refresh, 2*time.Second)
	if c.ServiceDownTime > 0 && c.ServiceDownTime < 5*refresh {
		l.bad(path+".service_down_time", "%v is below five times refresh (%v): services that are up would look down", c.ServiceDownTime, refresh)
	}
}

// LegacyOnly reports whether the gateway must run the scheduler of a cell.
func (g Gateway) LegacyOnly(cell string) bool {
	return slices.ContainsFunc(g.Legacy, func(c LegacyCell) bool { return c.Cell == cell && c.Only })
}

// legacyProblems says what is wrong with the URL of a legacy database. No problem quotes the URL, which
// may have a password.
func legacyProblems(text, ca string, insecure bool) (problems []string) {
	u, err := url.Parse(text)
	if err != nil {
		return []string{"is not a URL"}
	}
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	_, password := u.User.Password()
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		u.Scheme = "postgres"
		for _, p := range StoreProblems(u.String(), true, insecure) {
			problems = append(problems, strings.ReplaceAll(p, "store_password_file of a cell, or ~/.pgpass", "password_file, api_password_file"))
		}
		return problems
	case scheme != "mysql" && scheme != "mariadb":
		return []string{"must begin with mysql:// or postgres://"}
	case password:
		problems = append(problems, "has a password, which everybody sees who sees the configuration: put it into a file (password_file, api_password_file)")
	}
	if u.Hostname() == "" {
		problems = append(problems, "names no host")
	}
	if strings.Trim(u.Path, "/") == "" {
		problems = append(problems, "names no database")
	}
	if ca == "" && !insecure && u.Hostname() != "" && !IsLoopback(u.Hostname()) {
		problems = append(problems, fmt.Sprintf("reaches %s without TLS: give a ca, or allow it with insecure", u.Hostname()))
	}
	return problems
}
