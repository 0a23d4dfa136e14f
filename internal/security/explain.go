package security

import "strings"

// trouble is a reason why a connection cannot be made, recognized by gRPC's text: gRPC keeps only the
// text of such an error.
type trouble struct {
	// text is a part of gRPC's text, what its meaning; do says what to change, with {key} for the
	// settings of a client's TLS.
	text, what, do string
}

// troubles are tried in order.
var troubles = []trouble{
	{"certificate signed by unknown authority", "its certificate is of a CA that is not known here", "give {ca} the CA of that certificate"},
	{"certificate has expired or is not yet valid", "its certificate has expired, or is not valid yet", "replace the server's certificate, or set the clock of this machine"},
	{"certificate is valid for", "its certificate is for another name", "call it by a name of its certificate, or give that name in {server_name}"},
	{"doesn't contain any IP SANs", "its certificate is for another name", "call it by a name of its certificate, or give that name in {server_name}"},
	{"certificate is not valid for any names", "its certificate is for no name", "replace the server's certificate by one with its names in subjectAltName"},
	{"incompatible key usage", "its certificate is none of a server", "replace the server's certificate by one with extended key usage serverAuth"},
	{"first record does not look like a TLS handshake", "it does not speak TLS", "leave {ca} out, or give the address of one that speaks TLS"},
	{"tls: certificate required", "it takes callers with a certificate only", "give {cert} and {key}"},
	{"tls: expired certificate", "the certificate shown to it has expired", "replace {cert} and {key}"},
	{"tls: unknown certificate authority", "the certificate shown to it is of a CA that it does not know", "give {cert} and {key} a certificate of its client_ca"},
	{"tls: bad certificate", "it does not accept the certificate shown to it", "give {cert} and {key} a certificate of its client_ca, for clientAuth"},
	{"tls: unsupported certificate", "it does not accept the certificate shown to it", "give {cert} and {key} a certificate of its client_ca, for clientAuth"},
	{"protocol version not supported", "it does not speak TLS 1.3", "let it speak TLS 1.3"},
	{"connection refused", "nothing listens there", "start it, or correct the address"},
	{"no such host", "the name of the address is not known", "correct the address"},
	// gRPC closed the connection itself, since nothing came for as long as a connection may take.
	{"use of closed network connection", "it accepts connections and answers nothing, as one that hangs or is overloaded does", "look at its log and at the load of its machine"},
	{"i/o timeout", "nothing answers there", "correct the address, or let the network pass it"},
	{"no route to host", "no network leads there", "correct the address, or let the network pass it"},
}

// Explain says why a connection could not be made, and what to do; "" for any other error. setting
// returns the name by which a key of a client's TLS (ca, server_name, cert, key) is set.
func Explain(err error, c ClientConfig, setting func(key string) string) (what, do string) {
	if err == nil {
		return "", ""
	}
	text := err.Error()
	for _, t := range troubles {
		if strings.Contains(text, t.text) {
			for _, key := range []string{"ca", "server_name", "cert", "key"} {
				t.do = strings.ReplaceAll(t.do, "{"+key+"}", setting(key))
			}
			return t.what, t.do
		}
	}
	// A server that refuses a caller after the handshake sends its reason and closes the connection.
	// The reason may be lost.
	closed := strings.Contains(text, "error reading server preface") || strings.Contains(text, "broken pipe") || strings.Contains(text, "connection reset")
	switch {
	case !closed:
		return "", ""
	case c.CA == "":
		return "it closed the connection, as one that speaks TLS does", "give " + setting("ca") + " the CA of its certificate"
	case c.Cert == "":
		return "it closed the connection, as one that takes callers with a certificate only does", "give " + setting("cert") + " and " + setting("key")
	}
	return "it closed the connection, as one that does not accept the certificate shown to it does", "give " + setting("cert") + " and " + setting("key") + " a certificate of its client_ca, or see its log"
}
