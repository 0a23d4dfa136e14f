package config

import (
	"strings"
	"testing"
)

func TestShardsInDatabases(t *testing.T) {
	const good = "postgres://cellgate@127.0.0.1:5432/cell1"
	for _, c := range []struct {
		flags string
		want  string
	}{
		{"store=" + good, ""},
		{"store=cockroach://cellgate@db.example.org:26257/cell1?sslmode=verify-full", ""},
		{"store=" + good + " store-migrate=true store-password-file=/run/secret", ""},
		{"", "cell.data"},
		{"data=x store=" + good, "cell.data: is given with store"},
		{"data=x store-migrate=true", "cell.store: is needed"},
		{"store=mysql://127.0.0.1/cell1", "must begin with postgres://"},
		{"store=postgres://u:hidden@127.0.0.1/cell1", "has a password"},
		{"store=postgres://u@127.0.0.1/cell1?password=hidden", "has a password"},
		{"store=postgres://u@127.0.0.1", "names no database"},
		{"store=postgres:///cell1", "names no host"},
		{"store=postgres://u@db.example.org/cell1", "without being sure of TLS"},
		{"store=postgres://u@db.example.org/cell1?sslmode=prefer", "without being sure of TLS"},
		{"store=postgres://u@db.example.org/cell1 insecure=true", ""},
		{"store=postgres://u@127.0.0.1/cell1?host=db.example.org", "reaches db.example.org without being sure of TLS"},
		{"store=cockroach://u@/cell1?host=db.example.org", "reaches db.example.org without being sure of TLS"},
		{"store=cockroach://u@/cell1?host=/var/run,127.0.0.1,db.example.org", "reaches db.example.org without being sure of TLS"},
		{"store=postgres://u@127.0.0.1:5432,db.example.org:5432/cell1", "reaches db.example.org without being sure of TLS"},
		{"store=postgres://u@127.0.0.1:5432,db.example.org:5432/cell1?sslmode=allow", "reaches db.example.org without being sure of TLS"},
		{"store=cockroach://u@/cell1?host=a.example.org,b.example.org&port=26257&sslmode=require", ""},
		{"store=postgres://u@db.example.org/cell1?sslmode=verify-full&sslrootcert=/not/here&pool_max_conns=3", ""},
		{"store=postgres:///cell1?host=/var/run/postgresql", ""},
		{"store=postgres://u@db.example.org:port/cell1", "is not a URL"},
		{"store=postgres://u@127.0.0.1/cell1?sslmode=nonsense", "cannot be read"},
		{"store=%zz", "is not a URL"},
	} {
		env := []string{"CELLGATE_CELL_NAME=cell1", "CELLGATE_CELL_UUID=c0000000-0000-4000-8000-000000000001"}
		for _, f := range strings.Fields(c.flags) {
			k, v, _ := strings.Cut(f, "=")
			env = append(env, "CELLGATE_CELL_"+strings.ToUpper(strings.ReplaceAll(k, "-", "_"))+"="+v)
		}
		_, err := Load("cell", Source{Env: env})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.flags, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.flags, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the password is in the error: %v", c.flags, err)
		}
	}
}
