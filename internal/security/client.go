package security

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// ClientConfig names the files of a Client, like config.ClientTLS. If all are empty, the client uses no
// TLS and shows no credential.
type ClientConfig struct {
	CA, ServerName, Cert, Key, TokenFile string
}

// systemCA stands for the CAs that this machine trusts.
const systemCA = "system"

// Client is the security of a process's outgoing calls. Safe for concurrent use.
type Client struct {
	cfg   ClientConfig
	log   *slog.Logger
	roots *reloaded[authorities]
	pair  *reloaded[tls.Certificate]
	token *reloaded[string]
	files []poller
}

// NewClient reads the files, and reports every problem at once.
func NewClient(cfg ClientConfig, log *slog.Logger) (*Client, error) {
	c := &Client{cfg: cfg, log: log}
	var errs []error
	if cfg.Cert != "" != (cfg.Key != "") || cfg.Cert != "" && cfg.CA == "" {
		errs = append(errs, errors.New("a client's certificate needs its key, and the CA of the server"))
	}
	if cfg.CA != "" && cfg.CA != systemCA {
		c.roots = &reloaded[authorities]{what: "the CAs of servers", files: []file{{key: "ca", path: cfg.CA}}, parse: parsePool}
		c.files = append(c.files, c.roots)
	}
	if cfg.Cert != "" && cfg.Key != "" {
		c.pair = &reloaded[tls.Certificate]{
			what:  "the client's certificate",
			files: []file{{key: "cert", path: cfg.Cert}, {key: "key", path: cfg.Key, secret: true}}, parse: parsePair,
		}
		c.files = append(c.files, c.pair)
	}
	if cfg.TokenFile != "" {
		c.token = &reloaded[string]{what: "the token", files: []file{{key: "token_file", path: cfg.TokenFile, secret: true}}, parse: parseSecret}
		c.files = append(c.files, c.token)
	}
	if err := errors.Join(append(errs, loadAll(c.files))...); err != nil {
		return nil, err
	}
	return c, nil
}

// Certificate returns the identity in the client's certificate; nil without one.
func (c *Client) Certificate() (*Identity, error) {
	pair := c.pair.get()
	if pair == nil {
		return nil, nil
	}
	return certificateIdentity(pair.Leaf)
}

// Run reloads the files when they change, until ctx ends.
func (c *Client) Run(ctx context.Context) error { return pollAll(ctx, c.log, c.files) }

// Options are the options of a gRPC connection: TLS, and the token with each call.
func (c *Client) Options() []grpc.DialOption {
	var out []grpc.DialOption
	if c.cfg.CA != "" {
		out = append(out, grpc.WithTransportCredentials(clientCredentials{c: c}))
	}
	if c.token != nil {
		out = append(out, grpc.WithPerRPCCredentials(bearer{c}))
	}
	return out
}

// Transport returns an HTTP transport with TLS, and the token with each request.
func (c *Client) Transport() http.RoundTripper {
	t := &http.Transport{ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	if c.cfg.CA != "" {
		t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			config := c.tlsConfig()
			if config.NextProtos = []string{"h2", "http/1.1"}; config.ServerName == "" {
				host, _, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				config.ServerName = host
			}
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
		}
	}
	return tokenTransport{c: c, Transport: t}
}

type tokenTransport struct {
	c *Client
	*http.Transport
}

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if secret := t.c.token.get(); secret != nil {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+*secret)
	}
	return t.Transport.RoundTrip(r)
}

// tlsConfig is the configuration of a handshake that is made now.
func (c *Client) tlsConfig() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: c.cfg.ServerName}
	if roots := c.roots.get(); roots != nil {
		config.RootCAs = roots.pool
	}
	if pair := c.pair.get(); pair != nil {
		// Shown whichever CAs the server names: the server's error then says what is wrong with it.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return config
}

// clientCredentials makes each handshake with the current content of the files.
type clientCredentials struct{ c *Client }

func (k clientCredentials) inner() credentials.TransportCredentials {
	return credentials.NewTLS(k.c.tlsConfig())
}

func (k clientCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return k.inner().ClientHandshake(ctx, authority, conn)
}

func (k clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a client's credentials")
}

func (k clientCredentials) Info() credentials.ProtocolInfo          { return k.inner().Info() }
func (k clientCredentials) Clone() credentials.TransportCredentials { return k }
func (k clientCredentials) OverrideServerName(string) error {
	return errors.New("the server's name is configured")
}

// bearer sends the token. Configuration keeps it off the network without TLS.
type bearer struct{ c *Client }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + *b.c.token.get()}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.c.cfg.CA != "" }
