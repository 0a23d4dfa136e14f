package placement

import (
	"io"
	"net/http"
	"strings"

	"cellgate/internal/ingress"
)

// body reads the request's JSON and checks it.
func (c *call) body(s *schema) (any, error) {
	size := c.r.ContentLength
	if size < 0 {
		size = c.cfg.MaxBody // the length is not known: assume the most
	}
	if size > c.cfg.MaxBody {
		return nil, &http.MaxBytesError{Limit: c.cfg.MaxBody}
	}
	if c.Ingress != nil {
		release, err := c.Ingress.Body(ingress.HostOf(c.r.RemoteAddr), size)
		if err != nil {
			return nil, err
		}
		defer release()
		done, err := c.Ingress.Heavy(c.ctx, size)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.w.ResponseWriter, c.r.Body, c.cfg.MaxBody))
	if err != nil {
		return nil, err
	}
	return checkJSON(text, s)
}

// maxDiscarded bounds what DiscardBody reads of a body: 64 MiB.
const maxDiscarded = 64 << 20

// DiscardBody reads the rest of a refused request's body, up to maxDiscarded, before the answer. Otherwise net/http
// closes the connection after 256 KiB, and a client that sends its whole body before it reads gets a reset instead of
// the answer. For a client that waits to be asked for the body (Expect: 100-continue), it does nothing.
func DiscardBody(r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded) // the answer is sent even if the body cannot be read
	}
}

// object is body for an object.
func (c *call) object(s *schema) (map[string]any, error) {
	v, err := c.body(s)
	object, _ := v.(map[string]any) // the schema has checked it
	return object, err
}

func checkJSON(text []byte, s *schema) (any, error) {
	v, err := parseJSON(text)
	if err != nil {
		return nil, badRequest("Malformed JSON: %v", err)
	}
	if bad := s.check(v); bad != nil {
		return nil, badRequest("JSON does not validate: %v", bad)
	}
	return v, nil
}
