package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/gateway/legacy/legacytest"
)

// The statements of docs/how-to/upgrade.md make a user that is enough for the doctor, which
// reads all that a gateway does.
func TestTheGrantsOfTheDocsAreEnough(t *testing.T) {
	text := readFile(t, repository+"/docs/how-to/upgrade.md")
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 2, (&listingCell{}).registered(1, 2).serve(t))
		c.cell.Insert(t, "instances", c.instance(1, "host1"))
		cell, api := inDatabase(t, c.cell.URL), inDatabase(t, c.api.URL)
		user := "ro_" + strings.TrimPrefix(cell.Path, "/")
		plain := strings.NewReplacer("cellgate_ro", user, "nova_cell1", strings.Trim(cell.Path, "/"), "nova_api", strings.Trim(api.Path, "/"), "10.0.0.%", "127.0.0.1", "…", "s3cret")
		blocks := strings.Split(text, "```sql\n")
		if len(blocks) != 3 {
			t.Fatalf("%d blocks of SQL", len(blocks)-1)
		}
		statements := func(i int) string { return plain.Replace(strings.Split(blocks[i], "```")[0]) }
		if k == legacytest.MariaDB {
			c.cell.Exec(t, statements(1))
		} else {
			first, second, ok := strings.Cut(statements(2), "-- in the API database\n")
			if !ok {
				t.Fatal("the statements of the API database are not found")
			}
			c.cell.Exec(t, first)
			c.api.Exec(t, second)
		}
		t.Cleanup(func() {
			if k == legacytest.PostgreSQL {
				c.cell.Exec(t, "DROP OWNED BY "+user)
				c.api.Exec(t, "DROP OWNED BY "+user+"; DROP ROLE "+user)
			} else {
				c.cell.Exec(t, "DROP USER '"+user+"'@'127.0.0.1'")
			}
		})
		cell.User, api.User = url.User(user), url.User(user)
		dir := t.TempDir()
		password, conf := filepath.Join(dir, "password"), filepath.Join(dir, "gateway.yaml")
		yaml := fmt.Sprintf("gateway:\n  cells: [{name: cell1, uuid: %s, replicas: [%q]}]\n  legacy: [{cell: cell1, database: %q, api: %q, password_file: %q, api_password_file: %q, required_version: 60}]\n",
			novaCellUUID, c.replica, cell, api, password, password)
		for file, text := range map[string]string{password: "s3cret\n", conf: yaml} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		rows := diagnoses(t, exitDone, "upgrade", "--config", conf)
		must(t, rows, "cell1 legacy database", found, "has 2 hosts and 2 live services")
		must(t, rows, "cell1 instances", found, "1 instance on hosts")
	})
}

func inDatabase(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
