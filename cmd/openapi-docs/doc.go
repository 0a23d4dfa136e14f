// Command openapi-docs writes the OpenAPI 3.1 description of the REST API from the services of
// cellgate.v1: their HTTP bindings, the bounds of buf.validate, the comments of the protos, and
// the roles of internal/security. `make gen` runs it:
//
//	openapi-docs DESCRIPTORS OUT
//
// DESCRIPTORS is a file that `buf build` wrote, which has the comments.
//
// It describes JSON as the gateway reads and writes it: field names of the protos, enums as
// names, 64-bit numbers as texts. Fields of an answer are required where the gateway always
// writes them, so that generated clients need no checks for them.
package main
