package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/schedule"
)

// defaultPageSize is that of a list whose request does not say.
const defaultPageSize = 100

// maxPageBytes is the most a page's rows are, so that its message stays below what
// a gRPC client takes by default, rpc.MaxMessageBytes.
const maxPageBytes = rpc.MaxMessageBytes / 4 * 3

// listRequest is a request for a page of a list.
type listRequest interface {
	proto.Message
	GetCell() string
	GetPageSize() int32
	GetPageToken() string
}

// token is where a list goes on: in a cell, after a row.
type token struct {
	// List names the list and its filters: a token of another one would skip rows
	// in silence.
	List string `json:"list"`
	Cell string `json:"cell"`
	// After is the last row's key in the cell's order; empty: from its start.
	After string `json:"after,omitempty"`
	// AfterUUID decides between rows of equal keys.
	AfterUUID string `json:"after_uuid,omitempty"`
}

func (t token) String() string {
	text, _ := json.Marshal(t) // strings
	return base64.RawURLEncoding.EncodeToString(text)
}

// listOf names the list that a request is for: its message and all of its fields
// but the page's.
func listOf(req listRequest) string {
	r := proto.CloneOf(req).ProtoReflect()
	for _, name := range []protoreflect.Name{"page_size", "page_token"} {
		r.Clear(r.Descriptor().Fields().ByName(name))
	}
	// It came over the wire, so it marshals.
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(r.Interface())
	sum := sha256.Sum256(append([]byte(r.Descriptor().FullName()+"\n"), text...))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// readToken reads the token of a list; an error names page_token.
func readToken(s, list string) (token, error) {
	var t token
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	switch {
	case err != nil, hasNUL(t.After), hasNUL(t.AfterUUID):
		return t, fault.Invalid("page_token", "is not a next_page_token of this list")
	case t.List != list:
		return t, fault.Invalid("page_token", "is of another list, or of this one with other filters")
	}
	return t, nil
}

// pages fills one page of a list over cells, cell after cell in the order of
// configuration. read reads at most size rows of one cell from a token on; it
// gives how many there were, the token after the last, and whether the cell has
// more. A cell that does not answer is passed over and named.
func (g *Gateway) pages(req listRequest,
	read func(c *cell, size int32, from token) (rows int, next token, more bool, err error),
) (next string, unavailable []string, err error) {
	cells, err := g.cellsFor(req.GetCell())
	if err != nil {
		return "", nil, err
	}
	left := req.GetPageSize()
	if left == 0 {
		left = defaultPageSize
	}
	list := listOf(req)
	var from token
	if s := req.GetPageToken(); s != "" {
		if from, err = readToken(s, list); err != nil {
			return "", nil, err
		}
		for len(cells) > 0 && cells[0].cfg.Name != from.Cell {
			cells = cells[1:]
		}
		if len(cells) == 0 {
			return "", nil, fault.Invalid("page_token", "is of a list over other cells: %q is not among them", from.Cell)
		}
	}
	for _, c := range cells {
		if left <= 0 {
			return token{List: list, Cell: c.cfg.Name}.String(), unavailable, nil
		}
		rows, after, more, err := read(c, left, from)
		from = token{}
		if err != nil {
			unavailable = append(unavailable, c.cfg.Name)
			continue
		}
		if left -= int32(rows); more {
			after.List, after.Cell = list, c.cfg.Name
			return after.String(), unavailable, nil
		}
	}
	return "", unavailable, nil
}

// fitting gives the first of a cell's rows that fit into a page with those it has
// already. A page has one row at least.
func fitting[M proto.Message](page, rows []M) []M {
	size := 0
	for _, row := range page {
		size += proto.Size(row)
	}
	for i, row := range rows {
		if size += proto.Size(row); size > maxPageBytes && len(page)+i > 0 {
			return rows[:i]
		}
	}
	return rows
}

// canonical gives a uuid's canonical text, in which cells keep them; what is
// none stays as it is.
func canonical(uuid string) string {
	if id, err := schedule.ParseID(uuid); err == nil {
		return id.String()
	}
	return uuid
}
