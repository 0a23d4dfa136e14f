package lifecycle

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Listen opens a TCP listener. flag is the name of the flag that sets addr, without dashes; errors name
// both.
func Listen(addr, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s: the port is in use; stop what uses it or give another address with --%s", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen on %s: not allowed; give a port above 1023 with --%s", addr, flag)
	}
	return nil, fmt.Errorf("cannot listen on %s (--%s): %w", addr, flag, err)
}
