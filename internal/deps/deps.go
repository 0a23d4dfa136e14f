// Package deps holds the module's requirements while the packages that use them are written.
package deps

import (
	_ "buf.build/go/protovalidate"
	_ "github.com/anishathalye/porcupine"
	_ "github.com/cockroachdb/pebble/v2"
	_ "github.com/google/uuid"
	_ "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	_ "github.com/oklog/ulid/v2"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "google.golang.org/grpc/health"
	_ "google.golang.org/grpc/reflection"
	_ "google.golang.org/grpc/test/bufconn"
	_ "pgregory.net/rapid"
)
