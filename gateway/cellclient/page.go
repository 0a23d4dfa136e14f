package cellclient

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/schedule"
)

// DefaultPageSize is the page size of a list whose request does not name one.
const DefaultPageSize = 100

// maxPageBytes bounds the rows of a page, so that its message stays below
// rpc.MaxMessageBytes, a gRPC client's default limit.
const maxPageBytes = rpc.MaxMessageBytes / 4 * 3

// listRequest is a request for a page of a list.
type listRequest interface {
	proto.Message
	GetCell() string
	GetPageSize() int32
	GetPageToken() string
}

// PageToken is where the next page of a list begins: in a cell, after a row.
type PageToken struct {
	// List identifies the list and its filters: a token of another list would silently skip
	// rows.
	List string `json:"list"`
	Cell string `json:"cell"`
	// After is the last row's key in the cell's order; empty for the cell's first row.
	After string `json:"after,omitempty"`
	// AfterUUID is the last row's uuid, for rows of equal keys.
	AfterUUID string `json:"after_uuid,omitempty"`
}

func (t PageToken) String() string {
	text, _ := json.Marshal(t) // strings
	return base64.RawURLEncoding.EncodeToString(text)
}

// ListName identifies the list that a request is for, by a hash of its message type and all
// fields but the page's.
func ListName(req listRequest) string {
	r := proto.CloneOf(req).ProtoReflect()
	for _, name := range []protoreflect.Name{"page_size", "page_token"} {
		r.Clear(r.Descriptor().Fields().ByName(name))
	}
	// The request came over the wire, so it marshals.
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(r.Interface())
	sum := sha256.Sum256(append([]byte(r.Descriptor().FullName()+"\n"), text...))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// ReadToken reads the token of a list; an error names page_token.
func ReadToken(s, list string) (PageToken, error) {
	var t PageToken
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	switch {
	case err != nil, strings.Contains(t.After+t.AfterUUID, "\x00"):
		return t, fault.Invalid("page_token", "is not a next_page_token of this list")
	case t.List != list:
		return t, fault.Invalid("page_token", "is of another list, or of this one with other filters")
	}
	return t, nil
}

// Pages fills one page of a list over cells, cell after cell in the order of configuration.
// read reads at most size rows of one cell after a token, and gives whether the cell has more; keyOf
// gives After and AfterUUID of a row. A cell that does not answer is skipped and named in unavailable.
func Pages[M proto.Message](cs *Cells, req listRequest,
	read func(c *Cell, size int32, from PageToken) (rows []M, more bool, err error), keyOf func(M) PageToken,
) (page []M, next string, unavailable []string, err error) {
	list, err := cs.Selected(req.GetCell())
	if err != nil {
		return nil, "", nil, err
	}
	left := req.GetPageSize()
	if left == 0 {
		left = DefaultPageSize
	}
	of := ListName(req)
	var from PageToken
	if s := req.GetPageToken(); s != "" {
		if from, err = ReadToken(s, of); err != nil {
			return nil, "", nil, err
		}
		for len(list) > 0 && list[0].Name() != from.Cell {
			list = list[1:]
		}
		if len(list) == 0 {
			return nil, "", nil, fault.Invalid("page_token", "is of a list over other cells: %q is not among them", from.Cell)
		}
	}
	for _, c := range list {
		if left <= 0 {
			return page, PageToken{List: of, Cell: c.Name()}.String(), unavailable, nil
		}
		got, more, err := read(c, left, from)
		from = PageToken{}
		if err != nil {
			unavailable = append(unavailable, c.Name())
			continue
		}
		rows := FitPage(page, got)
		page, left = append(page, rows...), left-int32(len(rows))
		if more || len(rows) < len(got) {
			var after PageToken
			if len(rows) > 0 {
				after = keyOf(rows[len(rows)-1])
			}
			after.List, after.Cell = of, c.Name()
			return page, after.String(), unavailable, nil
		}
	}
	return page, "", unavailable, nil
}

// FitPage gives those first rows of a cell that fit into a page beside the rows it already
// has. An empty page takes at least one row.
func FitPage[M proto.Message](page, rows []M) []M {
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

// Canonical gives a uuid in the canonical form that cells store. A text that is no uuid is
// not changed.
func Canonical(uuid string) string {
	if id, err := schedule.ParseID(uuid); err == nil {
		return id.String()
	}
	return uuid
}
