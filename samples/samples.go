package samples

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Requests has the sample's files under requests/, bodies of
// POST /v1/select_destinations.
//
//go:embed requests/*.json
var Requests embed.FS

// What is to come of a sample, sent in the order of All to an empty fleet.
const (
	Placed  = "placed"
	Refused = "refused"
)

// The smallest fleet on which the samples come out as expected: README.md's with
// fewer hosts in its cells.
const (
	MinCells = 3
	MinHosts = 300
)

// Sample is one request of the sample.
type Sample struct {
	// Name is NNN-what-it-shows.
	Name string
	// File is its path in Requests.
	File    string
	Request *cellgatev1.SelectDestinationsRequest
	// Expect is Placed or Refused.
	Expect string
}

// All gives the samples, by name: the order they are to be sent in, since members
// of a group follow each other.
func All() ([]Sample, error) {
	entries, err := Requests.ReadDir("requests")
	if err != nil {
		return nil, fmt.Errorf("bundled sample: %w", err)
	}
	var all []Sample
	for _, e := range entries {
		s, err := read(path.Join("requests", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("bundled sample %s: %w", e.Name(), err)
		}
		all = append(all, s)
	}
	return all, nil
}

func read(file string) (Sample, error) {
	name, ok := strings.CutSuffix(path.Base(file), ".json")
	name, expect, cut := strings.Cut(name, ".")
	if !ok || !cut || (expect != Placed && expect != Refused) {
		return Sample{}, fmt.Errorf("the name must be NNN-name.%s.json or NNN-name.%s.json", Placed, Refused)
	}
	body, err := Requests.ReadFile(file)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{Name: name, File: file, Request: new(cellgatev1.SelectDestinationsRequest), Expect: expect}
	if err := protojson.Unmarshal(body, s.Request); err != nil {
		return Sample{}, err
	}
	return s, nil
}
