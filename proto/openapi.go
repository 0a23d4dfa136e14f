// Package proto carries the OpenAPI description that is generated from the
// protos beside it.
package proto

import _ "embed"

// OpenAPI is the REST API's description, OpenAPI 2.0 in JSON.
//
//go:embed openapi.swagger.json
var OpenAPI []byte
