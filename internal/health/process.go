package health

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Process is which process this is, for those who find it at an address: a doctor
// that looks whose a port is.
type Process struct {
	// Kind is "gateway", "cell" or "agent".
	Kind string `json:"kind"`
	// Command is the subcommand that runs it.
	Command string `json:"command"`
	// Cell, UUID and Replica are of a cell; Cell and Host of the agent of a host; Cell
	// and Seed of simulated agents.
	Cell    string `json:"cell,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	Replica string `json:"replica,omitempty"`
	Host    string `json:"host,omitempty"`
	Seed    uint64 `json:"seed,omitempty"`
	// Cells are the names of a gateway's cells, in its order.
	Cells []string `json:"cells,omitempty"`
}

// ProcessHeader is the header in which an answer of the gRPC health service carries
// a Process, as Encode writes it.
const ProcessHeader = "cellgate-process-bin"

// Encode writes a process as JSON.
func (p Process) Encode() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return string(text)
}

// DecodeProcess reads what Encode wrote; false for anything else.
func DecodeProcess(text string) (Process, bool) {
	var p Process
	err := json.Unmarshal([]byte(text), &p)
	return p, err == nil && p.Kind != ""
}

// String is for people: "cell cell1 (uuid), replica a".
func (p Process) String() string {
	text := "a " + p.Kind
	switch p.Kind {
	case "cell":
		text = fmt.Sprintf("cell %s (%s)", p.Cell, p.UUID)
		if p.Replica != "" && p.Replica != p.Cell {
			text += ", replica " + p.Replica
		}
	case "agent":
		text = fmt.Sprintf("agents of cell %s, seed %d", p.Cell, p.Seed)
		if p.Host != "" {
			text = fmt.Sprintf("the agent of host %s of cell %s", p.Host, p.Cell)
		}
	case "gateway":
		text += " over " + strings.Join(p.Cells, ", ")
	}
	if p.Command != p.Kind {
		text += ", of cellgate " + p.Command
	}
	return text
}
