package gateway

import (
	"encoding/base64"
	"encoding/json"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// defaultPageSize is that of a list whose request does not say.
const defaultPageSize = 100

// token is where a list goes on: in a cell, after a row.
type token struct {
	Cell string `json:"cell"`
	// After is the last row's key in the cell's order; empty: from its start.
	After string `json:"after,omitempty"`
	// AfterUUID decides between rows of equal keys.
	AfterUUID string `json:"after_uuid,omitempty"`
}

func (t token) String() string {
	text, _ := json.Marshal(t) // three strings
	return base64.RawURLEncoding.EncodeToString(text)
}

func readToken(s string) (token, error) {
	var t token
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		return t, fault.Invalid("page_token", "is not a next_page_token of this list")
	}
	return t, nil
}

// pages fills one page of a list over cells, cell after cell in the order of
// configuration. read reads at most size rows of one cell from a token on; it
// gives how many there were, the token after the last, and whether the cell has
// more. A cell that does not answer is passed over and named.
func (g *Gateway) pages(only string, pageSize int32, pageToken string,
	read func(c *cell, size int32, from token) (rows int, next token, more bool, err error),
) (next string, unavailable []string, err error) {
	cells, err := g.cellsFor(only)
	if err != nil {
		return "", nil, err
	}
	if pageSize == 0 {
		pageSize = defaultPageSize
	}
	var from token
	if pageToken != "" {
		if from, err = readToken(pageToken); err != nil {
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
		if pageSize <= 0 {
			return token{Cell: c.cfg.Name}.String(), unavailable, nil
		}
		rows, after, more, err := read(c, pageSize, from)
		from = token{}
		if err != nil {
			unavailable = append(unavailable, c.cfg.Name)
			continue
		}
		if pageSize -= int32(rows); more {
			after.Cell = c.cfg.Name
			return after.String(), unavailable, nil
		}
	}
	return "", unavailable, nil
}

// canonical gives a uuid's canonical text, in which cells keep them; what is
// none stays as it is.
func canonical(uuid string) string {
	if id, err := schedule.ParseID(uuid); err == nil {
		return id.String()
	}
	return uuid
}
