package sqlshard

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// refusedTLS is what pgx says of a server that has no TLS. Without an sslmode it then tries
// without, and lists both failures, this one first.
const refusedTLS = "server refused TLS connection"

// connectError is a failure to connect without the tries that only found that a server has
// no TLS, where another try says more.
type connectError struct {
	error
	text string
}

func (e connectError) Error() string { return e.text }

func (e connectError) Unwrap() error { return e.error }

// plainly leaves out of what a failure to connect says what does not matter; the errors
// stay in its chain.
func plainly(err error) error {
	var failed *pgconn.ConnectError
	if !errors.As(err, &failed) {
		return err
	}
	many, ok := failed.Unwrap().(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var left []string
	tries := many.Unwrap()
	for _, e := range tries {
		if text := e.Error(); !strings.HasSuffix(text, refusedTLS) {
			left = append(left, text)
		}
	}
	if len(left) == 0 || len(left) == len(tries) {
		return err
	}
	return connectError{err, "failed to connect to database " + failed.Config.Database + " as " + failed.Config.User + ": " + strings.Join(left, "; ")}
}
