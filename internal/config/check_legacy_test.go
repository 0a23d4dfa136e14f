package config

import (
	"strings"
	"testing"
)

func TestLegacyCells(t *testing.T) {
	const head = "gateway:\n  cells: [{name: cell1, replicas: [h:1]}]\n  legacy: ["
	for entry, want := range map[string]string{
		"{cell: cell1, database: 'mysql://nova@127.0.0.1:3306/nova_cell1', api: 'mysql+pymysql://nova@localhost/nova_api', required_version: 60}": "",
		"{cell: cell1, database: 'postgres://nova@127.0.0.1/nova', refresh: 5s, cpu_allocation_ratio: 16.0}":                                      "",
		"{cell: cell1, database: 'postgres://nova@db.example.org/nova?sslmode=verify-full'}":                                                      "",
		"{cell: cell1, database: 'mysql://nova@db.example.org/nova', ca: system}":                                                                 "",
		"{cell: cell1, database: 'mysql://nova@db.example.org/nova', insecure: true}":                                                             "",
		"{cell: cell1, database: 'mysql://nova@db.example.org/nova'}":                                                                             "reaches db.example.org without TLS",
		"{cell: cell1, database: 'postgres://nova@db.example.org/nova'}":                                                                          "without being sure of TLS",
		"{cell: cell1, database: 'mysql://nova:hidden@127.0.0.1/nova'}":                                                                           "has a password",
		"{cell: cell1, database: 'postgres://nova:hidden@127.0.0.1/nova'}":                                                                        "put it into a file (password_file",
		"{cell: cell1, database: 'mysql://nova@127.0.0.1'}":                                                                                       "names no database",
		"{cell: cell1, database: 'mysql:///nova'}":                                                                                                "names no host",
		"{cell: cell1, database: 'sqlite:///nova'}":                                                                                               "must begin with mysql://",
		"{cell: cell1, database: 'mysql://nova@127.0.0.1/nova', api: 'x'}":                                                                        "gateway.legacy[0].api: must begin",
		"{cell: cell2, database: 'mysql://nova@127.0.0.1/nova'}":                                                                                  "is none of gateway.cells",
		"{database: 'mysql://nova@127.0.0.1/nova'}":                                                                                               "gateway.legacy[0].cell: must be set",
		"{cell: cell1, database: 'mysql://nova@127.0.0.1/nova', required_version: 2147483647}":                                                    "",
		"{cell: cell1, database: 'mysql://nova@127.0.0.1/nova', required_version: 2147483648}":                                                    "required_version: 2147483648 is not between 0 and 2147483647",
		"{cell: cell1, database: 'mysql://nova@127.0.0.1/nova', required_version: 4294967297}":                                                    "required_version: 4294967297 is not between",
		"{cell: cell1, database: 'mysql://nova@127.0.0.1/nova', required_version: -1}":                                                            "required_version: -1 is not between",
		"{cell: cell1, database: 'mysql://nova@127.0.0.1/nova', ram_allocation_ratio: -1}":                                                        "ram_allocation_ratio: -1 is below 0",
		"{cell: cell1, database: 'mysql://nova@127.0.0.1/nova'}, {cell: cell1, database: 'mysql://nova@127.0.0.1/nova'}":                          "gateway.legacy[1].cell",
	} {
		_, err := Load("gateway", Source{File: write(t, head+entry+"]\n")})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", entry, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", entry, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the password is in the error: %v", entry, err)
		}
	}
	// Each cell has a database of its own.
	text := strings.Replace(head, "]}]", "]}, {name: cell2, replicas: [h:2]}]", 1) + "{cell: cell1, database: 'mysql://nova@127.0.0.1/nova'}, {cell: cell2, database: 'mysql://nova@127.0.0.1/nova'}]\n"
	if _, err := Load("gateway", Source{File: write(t, text)}); err == nil || !strings.Contains(err.Error(), "gateway.legacy[1].database: is that of cell cell1 already") {
		t.Errorf("two cells have one database: %v", err)
	}
	c, err := Load("gateway", Source{Env: []string{"CELLGATE_GATEWAY_CELLS=cell1=h:1"}, Flags: map[string]string{"gateway.legacy": "cell1=mysql://nova@127.0.0.1/nova?charset=utf8"}})
	if err != nil || len(c.Gateway.Legacy) != 1 || c.Gateway.Legacy[0].Database != "mysql://nova@127.0.0.1/nova?charset=utf8" {
		t.Errorf("%v, %v", c.Gateway.Legacy, err)
	}
}
