package security

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"cellgate/internal/fault"
)

// Role is the kind of a caller. A caller has one role.
type Role string

const (
	// Conductor places instances and ends their claims.
	Conductor Role = "conductor"
	// Agent reports its own hosts to their cell.
	Agent Role = "agent"
	// Operator is a person, or a person's tool: it may use all of the public API.
	Operator Role = "operator"
	// Reader sees everything and changes nothing.
	Reader Role = "reader"
	// Service is another service, such as Cinder: it reports facts of hosts, and sees hosts.
	Service Role = "service"
	// Gateway calls the cells.
	Gateway Role = "gateway"
)

// Roles lists all roles.
func Roles() []Role { return []Role{Conductor, Agent, Operator, Reader, Service, Gateway} }

// Identity is the proven identity of a caller.
type Identity struct {
	Role Role
	// Name is for the log.
	Name string
	// Hosts are the service hosts that an agent reports: names, or prefixes followed by "*".
	Hosts []string
	// Expires is when the proof ends; zero for never.
	Expires time.Time
}

// SpeaksFor reports whether the caller is the agent of a service host.
func (i *Identity) SpeaksFor(serviceHost string) bool {
	return i.Role == Agent && slices.ContainsFunc(i.Hosts, func(h string) bool {
		if beginning, ok := strings.CutSuffix(h, "*"); ok {
			return strings.HasPrefix(serviceHost, beginning)
		}
		return h == serviceHost
	})
}

// same reports whether two proofs prove the same caller with the same rights.
func (i *Identity) same(other *Identity) bool {
	return i.Role == other.Role && i.Name == other.Name && slices.Equal(i.Hosts, other.Hosts)
}

// check says what is wrong with an identity; "" for nothing.
func (i *Identity) check() string {
	switch {
	case !slices.Contains(Roles(), i.Role):
		return "role " + quoted(string(i.Role)) + " is none of conductor, agent, operator, reader, service, gateway"
	case len(i.Name) > 255:
		return "name is longer than 255 bytes"
	case i.Role != Agent && len(i.Hosts) > 0:
		return "hosts are for the role agent only"
	case i.Role == Agent && len(i.Hosts) == 0:
		return "an agent needs the service hosts it speaks for"
	}
	for _, h := range i.Hosts {
		switch beginning, _ := strings.CutSuffix(h, "*"); {
		case beginning == "":
			return "host " + quoted(h) + ": an agent does not speak for every host"
		case strings.ContainsAny(beginning, "*/\x00") || len(h) > 255 || path.Clean(h) != h:
			return "host " + quoted(h) + " is not a service host; a \"*\" may only end it"
		}
	}
	return ""
}

// key is the key by which a caller's bytes are counted.
func (i *Identity) key() string { return string(i.Role) + "/" + i.Name }

type identityKey struct{}

// FromContext returns the caller of a call; nil if no credential was needed.
func FromContext(ctx context.Context) *Identity {
	id, _ := ctx.Value(identityKey{}).(*Identity)
	return id
}

// With returns a context whose caller is id.
func With(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// MayReport returns an error unless the caller may report the state of a service host.
func MayReport(ctx context.Context, serviceHost string) error {
	if id := FromContext(ctx); id != nil && !id.SpeaksFor(serviceHost) {
		return fault.New(fault.PermissionDenied, "the caller is not the agent of host %s", quoted(serviceHost))
	}
	return nil
}
