// Package console serves what a person meets at a gateway's HTTP address: the pages of the
// console, whose source is in console/ and whose built files are in dist/, and the stream of
// events that keeps them live.
//
// The pages are static and hold no secrets: everybody may read them. What they show they get
// from the REST API, with the credential and the role of their reader.
// `make console` builds dist/; `make gen-check` fails when dist/ is older than its source.
package console
