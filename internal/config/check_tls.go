package config

import (
	"strings"
)

// SystemCA is the value of a CA key that means the CAs that this machine trusts.
const SystemCA = "system"

// Encrypts reports whether the server speaks TLS, Authenticates whether callers must prove their
// identity.
func (t ServerTLS) Encrypts() bool      { return t.Cert != "" || t.Key != "" }
func (t ServerTLS) Authenticates() bool { return t.ClientCA != "" || t.Tokens != "" }

// What anyone who reaches an insecure address may do.
const (
	placeAndRelease = "place and release"
	readMetrics     = "read the metrics"
)

// listen checks an address to listen on: unless it is loopback, it needs TLS and authentication. lacks
// says what is missing for them, "" for nothing, and anyone what whoever reaches the address may do.
func (l *loader) listen(path, value string, insecure bool, lacks, anyone string) {
	switch host, _, err := splitAddress(value, 0); {
	case err != nil:
		l.bad(path, "%v", err)
	case !insecure && lacks != "" && !IsLoopback(host):
		l.bad(path, "%s is not a loopback address: %s; or give --insecure to let anyone who reaches it %s", value, lacks, anyone)
	}
}

// metrics checks an address of metrics, "" for none.
func (l *loader) metrics(path, value string, insecure bool, lacks string) {
	if value != "" {
		l.listen(path, value, insecure, lacks, readMetrics)
	}
}

// exposes says what a server needs before it may listen on an address that others can reach.
func exposes(path string, t ServerTLS) string {
	var lacks []string
	if !t.Encrypts() {
		lacks = append(lacks, "set "+path+".cert and "+path+".key for TLS")
	}
	if !t.Authenticates() {
		lacks = append(lacks, "set "+path+".client_ca or "+path+".tokens to know the callers")
	}
	return strings.Join(lacks, ", and ")
}

func (l *loader) checkServerTLS(path string, t ServerTLS) {
	l.together(path, "cert", t.Cert, "key", t.Key)
	if t.ClientCA != "" && !t.Encrypts() {
		l.bad(path+".client_ca", "callers show certificates in TLS only; set %s.cert and %s.key", path, path)
	}
	if t.ClientCertOptional && (t.ClientCA == "" || t.Tokens == "") {
		l.bad(path+".client_cert_optional", "is of use with both client_ca and tokens")
	}
}

func (l *loader) checkClientTLS(path string, t ClientTLS) {
	l.together(path, "cert", t.Cert, "key", t.Key)
	if t.CA != "" {
		return
	}
	if t.Cert != "" {
		l.bad(path+".cert", "certificates are shown in TLS only; set %s.ca", path)
	}
	if t.ServerName != "" {
		l.bad(path+".server_name", "is of use with TLS only; set %s.ca", path)
	}
}

// secretPrefix starts every token (package security).
const secretPrefix = "cellgate_"

// namesFile checks a value that must name a file. The content of a file given by mistake is not shown, in
// case it is a secret.
func (l *loader) namesFile(path, value string) {
	if strings.Contains(value, "-----BEGIN") || strings.ContainsAny(value, "\r\n") || strings.HasPrefix(value, secretPrefix) {
		l.bad(path, "is what a file holds, not a path; secrets are given as paths only")
	}
}

// together checks that two keys are either both set or both empty.
func (l *loader) together(path, a, aValue, b, bValue string) {
	switch {
	case aValue != "" && bValue == "":
		l.bad(path+"."+b, "must be set, since %s is", a)
	case aValue == "" && bValue != "":
		l.bad(path+"."+a, "must be set, since %s is", b)
	}
}

// secrecy checks that a token is not sent without TLS to another machine.
func (l *loader) secrecy(path string, t ClientTLS, target string) {
	if problem := t.Secrecy(target); problem != "" {
		l.bad(path+".token_file", "%s", problem)
	}
}

// Secrecy says why a client must not send its token to an address; "" if it may.
func (t ClientTLS) Secrecy(target string) string {
	host, _, err := splitAddress(target, 0)
	if t.TokenFile == "" || t.CA != "" || err != nil || IsLoopback(host) {
		return ""
	}
	return "would be sent to " + target + " in the clear; set ca for TLS"
}
