// Package proto carries the OpenAPI description that is generated from the
// protos beside it.
package proto

import _ "embed"

// OpenAPI is the REST API's description, OpenAPI 3.1 in JSON; cmd/openapi-docs writes it.
//
//go:embed openapi.json
var OpenAPI []byte
