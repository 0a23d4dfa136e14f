package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
)

// defaultAddr is where a gateway serves gRPC unless configured otherwise.
const defaultAddr = "127.0.0.1:9090"

// client is what all commands that call a gateway have in common.
type client struct {
	addr    string
	timeout time.Duration
	tls     config.ClientTLS
	// form is that of -o.
	form *string
	// colors: states may have colours on a terminal (NO_COLOR is not set).
	colors bool
}

// newClient adds the flags of a client command and its subcommands; forms are further output forms.
func newClient(cmd *cobra.Command, t terminal, forms ...string) *client {
	c := &client{colors: !slices.ContainsFunc(t.env, func(e string) bool { return strings.HasPrefix(e, "NO_COLOR=") && e != "NO_COLOR=" })}
	f := cmd.PersistentFlags()
	text := func(to *string, name, unset, help string) {
		variable := config.EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		for _, e := range t.env {
			if v, ok := strings.CutPrefix(e, variable+"="); ok && v != "" {
				unset = v
			}
		}
		f.StringVar(to, name, unset, help+"; "+variable+" sets the default")
	}
	text(&c.addr, "addr", defaultAddr, "gRPC address of a gateway")
	text(&c.tls.CA, "ca", "", "PEM file of the CAs of the gateway's certificate, or system; turns TLS on")
	text(&c.tls.ServerName, "server-name", "", "name in the gateway's certificate, when it is not its address")
	text(&c.tls.Cert, "cert", "", "PEM file of this client's certificate")
	text(&c.tls.Key, "key", "", "PEM file of its key")
	text(&c.tls.TokenFile, "token-file", "", "file with the token to show")
	f.DurationVar(&c.timeout, "timeout", 30*time.Second, "how long to wait for the answer")
	c.form = outputFlag(cmd, append([]string{"wide", "yaml", "name"}, forms...)...)
	return c
}

// watchFlag adds --watch: it shows a list again after each such time; 0 shows it once.
func watchFlag(cmd *cobra.Command) {
	cmd.Flags().Duration("watch", 0, "show it again and again: every 2s, or as often as --watch=DURATION says")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
}

// call runs work with a connection. It prints what work returns as JSON or YAML, or has show print it
// as a table. When the caller asked for JSON, it prints the gateway's error as JSON too.
func call[M proto.Message](c *client, cmd *cobra.Command, work func(context.Context, *grpc.ClientConn) (M, error), show func(*page, M)) error {
	form := *c.form
	if err := c.check(cmd); err != nil {
		return err
	}
	if by, _ := cmd.Flags().GetString("sort"); by != "" && !isTable(cmd) { // "" where there is no such flag
		return usage(cmd, fmt.Errorf("--sort: is for tables; -o %s has the list's own order", form))
	}
	conn, err := c.connect(cmd)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()          // its calls are over
	every, _ := cmd.Flags().GetDuration("watch") // 0 where there is no such flag
	answered, away := false, false
	for {
		err := c.callOnce(cmd, form, every > 0, func(ctx context.Context) (proto.Message, func(*page), error) {
			m, err := work(ctx, conn)
			return m, func(p *page) { show(p, m) }, err
		})
		switch {
		case every <= 0, err != nil && (!answered || !passes(err)):
			return err
		case err != nil && !away:
			fmt.Fprintf(cmd.ErrOrStderr(), "cellgate: %s\ncellgate: trying again every %v\n", wording(err), every)
		case err == nil && away:
			fmt.Fprintf(cmd.ErrOrStderr(), "cellgate: the gateway at %s answers again\n", c.addr)
		}
		answered, away = answered || err == nil, err != nil
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(every):
		}
	}
}

// passes reports whether an error may pass by itself, as when a gateway restarts.
func passes(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.CellUnavailable || kind == fault.Overloaded || errors.Is(err, context.DeadlineExceeded)
}

// progressAfter is how long a command waits for registration, or for an answer, before it says so.
const progressAfter = 2 * time.Second

// clearScreen moves a terminal's cursor home and clears the screen below it.
const clearScreen = "\x1b[H\x1b[2J"

func (c *client) callOnce(cmd *cobra.Command, form string, again bool, work func(context.Context) (proto.Message, func(*page), error)) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
	defer cancel()
	out := cmd.OutOrStdout()
	waiting := time.AfterFunc(progressAfter, func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "cellgate: waiting for the answer of the gateway at %s, for at most %v (--timeout)\n", c.addr, c.timeout)
	})
	m, fill, err := work(ctx)
	waiting.Stop()
	switch {
	case err != nil:
		if form == "json" {
			err = errors.Join(printError(out, err), err)
		}
		return c.located(cmd.Context(), flagged(cmd, err))
	case form == "json", form == "yaml":
		return printMessage(out, m, form)
	}
	by, _ := cmd.Flags().GetString("sort") // "" where there is no such flag
	p := &page{wide: form == "wide", names: form == "name", sort: by, colored: c.colors && isTerminal(out)}
	if !p.wide {
		p.width = pageWidth
	}
	if again && isTerminal(out) {
		p.WriteString(clearScreen)
	}
	fill(p)
	if p.unsorted != nil {
		return usage(cmd, p.unsorted)
	}
	for _, note := range p.notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "cellgate: %s\n", note)
	}
	_, err = p.WriteTo(out)
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// check refuses an address or a timeout with which no call can succeed.
func (c *client) check(cmd *cobra.Command) error {
	if err := config.CheckAddress(c.addr); err != nil {
		return usage(cmd, fmt.Errorf("--addr (or CELLGATE_ADDR): %w", err))
	}
	if c.timeout <= 0 {
		return usage(cmd, fmt.Errorf("--timeout: %v is not above 0", c.timeout))
	}
	return nil
}

// connect makes a connection to the gateway. It dials at its first call.
func (c *client) connect(cmd *cobra.Command) (*grpc.ClientConn, error) {
	s, err := c.credentials(cmd)
	if err != nil {
		return nil, err
	}
	conn, err := rpc.Dial(c.addr, s.Options()...)
	if err != nil {
		return nil, usage(cmd, fmt.Errorf("--addr %s: %w", c.addr, err))
	}
	return conn, nil
}

// credentials reads the TLS files.
func (c *client) credentials(cmd *cobra.Command) (*security.Client, error) {
	if problem := c.tls.Secrecy(c.addr); problem != "" {
		return nil, usage(cmd, fmt.Errorf("--token-file: %s", strings.Replace(problem, "set ca", "give --ca", 1)))
	}
	s, err := security.NewClient(security.ClientConfig(c.tls), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, usage(cmd, worded(err, "", asFlag))
	}
	return s, nil
}

// asFlag gives the flag of a TLS key.
func asFlag(key string) string { return "--" + strings.ReplaceAll(key, "_", "-") }

// probeTimeout bounds speaksHTTP.
const probeTimeout = 2 * time.Second

// speaksHTTP reports whether the server at the address speaks HTTP/1.1, as a gateway's REST API does.
// Such a server closes a connection that begins with gRPC.
func (c *client) speaksHTTP(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addr+"/healthz", http.NoBody)
	if err != nil {
		return false
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // any answer is enough
	// A TLS server answers plain HTTP with 400.
	return resp.StatusCode != http.StatusBadRequest
}

// located adds the address to an error when the connection failed.
func (c *client) located(ctx context.Context, err error) error {
	var e *fault.Error
	if errors.As(err, &e) && e.Kind == fault.CellUnavailable && e.Cause != nil {
		if c.speaksHTTP(ctx) {
			return &unreachableError{addr: c.addr, why: "it speaks HTTP, not gRPC: that is the address of a REST API; give --addr the gateway's gRPC address (gateway.grpc, " + defaultAddr + " by default)", err: err}
		}
		if status.Code(e.Cause) == codes.Unimplemented {
			return &unreachableError{addr: c.addr, why: "it does not serve this call, as a cell or a gateway of another version does; give --addr the gateway's gRPC address (gateway.grpc, " + defaultAddr + " by default)", err: err}
		}
		what, do := security.Explain(e.Cause, security.ClientConfig(c.tls), asFlag)
		if what != "" {
			if e.Message != "closed the connection" { // what says more of that
				what = e.Message + ": " + what
			}
			what += "; " + do
		}
		return &unreachableError{addr: c.addr, why: what, err: err}
	}
	if fault.KindOf(err) == fault.Unauthenticated {
		return fmt.Errorf("the gateway at %s: %w; correct --token-file, or --cert and --key", c.addr, err)
	}
	return err
}

// printError prints a gateway's error for programs to read.
func printError(w io.Writer, err error) error {
	out := struct {
		Reason   fault.Kind        `json:"reason"`
		Message  string            `json:"message"`
		Metadata map[string]string `json:"metadata,omitempty"`
		Fields   []errorField      `json:"fields,omitempty"`
		Detail   json.RawMessage   `json:"detail,omitempty"`
	}{Reason: fault.KindOf(err), Message: err.Error()}
	var e *fault.Error
	if errors.As(err, &e) {
		out.Message, out.Metadata = e.Message, e.Metadata
		for _, f := range e.Fields {
			out.Fields = append(out.Fields, errorField{f.Path, f.Problem})
		}
		if m, ok := e.Detail.(proto.Message); ok {
			raw, err := jsonForm.Marshal(m)
			if err != nil {
				return err
			}
			out.Detail = raw
		}
	}
	return encode(w, map[string]any{"error": out})
}

type errorField struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
}
