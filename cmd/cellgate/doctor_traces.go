package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"cellgate/internal/config"
)

// traces examines where traces go. A process runs without them too.
func (d *doctor) traces(c config.Telemetry) {
	switch c.Traces {
	case "file":
		check := "telemetry.file " + c.File
		if err := appendable(c.File); err != nil {
			d.add(check, unhealthy, "traces cannot be written there: "+err.Error(), "give a file in a directory that this user may write to")
			return
		}
		d.ok(check, "can be written")
	case "otlp":
		check := "telemetry.endpoint " + c.Endpoint
		u, err := url.Parse(c.Endpoint)
		if err != nil {
			return // told with the configuration
		}
		conn, err := (&net.Dialer{Timeout: askWithin}).DialContext(d.ctx, "tcp", u.Host)
		if err != nil {
			d.add(check, warned, "is not reached: "+err.Error(), "start the collector, or correct the address; traces are lost meanwhile, and nothing else is")
			return
		}
		_ = conn.Close() // nothing was sent
		d.ok(check, "takes connections")
	}
}

// appendable gives the error with which writing to the end of a file would fail,
// and makes nothing.
func appendable(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	const may = 0x2 | 0x1 // to write in a directory and to go through it
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := syscall.Access(dir, may); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
