// Package console serves what people use at a gateway's HTTP address: the pages of the
// console, whose source is in console/ and whose built files are in dist/, and the stream of
// events that keeps the pages current.
//
// The pages are static and hold no secrets: everybody may read them. Their data come from the
// REST API, with the credential and the role of the reader. `make console` builds dist/;
// `make gen-check` fails if dist/ is older than its source.
package console
