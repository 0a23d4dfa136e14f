package main

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// resolveHost replaces a host's name in the field host_uuid of a request by the uuid of the
// host with exactly this name. Requests without that field, or with a uuid in it, stay.
func resolveHost(ctx context.Context, conn grpc.ClientConnInterface, in proto.Message) error {
	request := in.ProtoReflect()
	field := request.Descriptor().Fields().ByName("host_uuid")
	if field == nil {
		return nil
	}
	name := request.Get(field).String()
	if _, err := uuid.Parse(name); err == nil || name == "" {
		return nil
	}
	found, err := hostsNamed(ctx, conn, name)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fault.New(fault.NotFound, "no cell that answers has a host %q: \"cellgate hosts --name TEXT\" lists those with TEXT in their name", name)
	case len(found) > 1:
		var list []string
		for _, h := range found {
			list = append(list, h.GetHostUuid()+" in "+h.GetCell())
		}
		return fault.Invalid("host_uuid", "%d hosts have the name %q: give the uuid of one: %s", len(found), name, strings.Join(list, ", "))
	}
	request.Set(field, protoreflect.ValueOfString(found[0].GetHostUuid()))
	return nil
}

// hostsNamed gives the hosts with exactly this name, of all cells that answer.
func hostsNamed(ctx context.Context, conn grpc.ClientConnInterface, name string) (found []*cellgatev1.Host, err error) {
	req := &cellgatev1.ListHostsRequest{NameContains: name, PageSize: maxPage}
	err = eachPage(ctx, req, cellgatev1.NewHostsClient(conn).ListHosts, func(page *cellgatev1.ListHostsResponse) bool {
		for _, h := range page.GetHosts() {
			if h.GetServiceHost() == name {
				found = append(found, h)
			}
		}
		return true
	})
	return found, err
}
