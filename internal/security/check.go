package security

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// soon is how long before the end of a certificate or token Check warns.
const soon = 14 * 24 * time.Hour

// Finding is one problem that Check found.
type Finding struct {
	// Bad: the process would not start, or its peers would refuse it. Otherwise the finding is a
	// warning.
	Bad bool
	// Text names the file.
	Text string
	// Do says what to do, if that is more than renewing the file.
	Do string
}

// Check reads the files of a process as the process itself would. It returns everything that is wrong
// with them, or soon will be. Either configuration may be nil.
func Check(server *ServerConfig, client *ClientConfig, now time.Time) []Finding {
	var out []Finding
	silent := slog.New(slog.DiscardHandler)
	var bad func(err error)
	bad = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				bad(e)
			}
		} else if err != nil {
			f := Finding{Bad: true, Text: err.Error()}
			if file := (*FileError)(nil); errors.As(err, &file) {
				f.Do = file.Do()
			}
			out = append(out, f)
		}
	}
	if server != nil {
		s, err := NewServer(*server, silent)
		bad(err)
		if err == nil {
			out = append(out, checkPair(s.pair.get(), server.Cert, x509.ExtKeyUsageServerAuth, now)...)
			out = append(out, checkTokens(s.tokens.get(), server.Tokens, now)...)
		}
	}
	if client != nil {
		c, err := NewClient(*client, silent)
		bad(err)
		if err == nil {
			out = append(out, checkPair(c.pair.get(), client.Cert, x509.ExtKeyUsageClientAuth, now)...)
			if pair := c.pair.get(); pair != nil && c.token == nil {
				if _, err := certificateIdentity(pair.Leaf); err != nil {
					out = append(out, Finding{Bad: true, Text: fmt.Sprintf("%s: %v", client.Cert, err)})
				}
			}
		}
	}
	return out
}

// checkPair checks whether a certificate fits its use.
func checkPair(pair *tls.Certificate, path string, use x509.ExtKeyUsage, now time.Time) []Finding {
	if pair == nil {
		return nil
	}
	leaf, out := pair.Leaf, []Finding(nil)
	if text, is := ending(now, leaf.NotAfter); text != "" {
		out = append(out, Finding{Bad: is, Text: path + ": the certificate " + text, Do: replaceIt(is, "one that is valid today")})
	}
	if now.Before(leaf.NotBefore) {
		out = append(out, Finding{Bad: true, Text: path + ": the certificate is not valid before " + leaf.NotBefore.UTC().Format(time.RFC3339), Do: replaceIt(true, "one that is valid today") + "; or set the clock of this machine"})
	}
	fits := len(leaf.ExtKeyUsage) == 0
	for _, u := range leaf.ExtKeyUsage {
		fits = fits || u == use || u == x509.ExtKeyUsageAny
	}
	if !fits {
		name := "clientAuth"
		if use == x509.ExtKeyUsageServerAuth {
			name = "serverAuth"
		}
		out = append(out, Finding{Bad: true, Text: path + ": the certificate's extended key usage is not " + name, Do: replaceIt(true, "one that has it")})
	}
	if use == x509.ExtKeyUsageServerAuth && len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
		out = append(out, Finding{Bad: true, Text: path + ": the certificate has no DNS name and no address in subjectAltName", Do: replaceIt(true, "one with the names that callers use")})
	}
	return out
}

// replaceIt says what to do about a bad certificate; "" if it is not bad.
func replaceIt(bad bool, by string) string {
	if !bad {
		return ""
	}
	return "put " + by + " in its place; the process reads it by itself"
}

func checkTokens(known *tokens, path string, now time.Time) []Finding {
	if known == nil {
		return nil
	}
	var out []Finding
	if len(*known) == 0 {
		out = append(out, Finding{Text: path + ": no token is known"})
	}
	for _, id := range *known {
		if id.Expires.IsZero() {
			continue
		}
		if text, _ := ending(now, id.Expires); text != "" {
			out = append(out, Finding{Text: path + ": token " + quoted(id.Name) + " " + text})
		}
	}
	return out
}

// ending describes an end that is near or past; ended says that it is past.
func ending(now, end time.Time) (text string, ended bool) {
	switch at := end.UTC().Format(time.RFC3339); {
	case !now.Before(end):
		return "ended at " + at, true
	case end.Sub(now) < soon:
		return "ends at " + at, false
	}
	return "", false
}
