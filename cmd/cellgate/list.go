package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxPage is the most that one page of a list may hold.
const maxPage = 1000

// listFlags adds --limit, and --sort, which sorts a table's rows.
func listFlags(cmd *cobra.Command, what string) *limit {
	cmd.Flags().String("sort", "", "column to sort the table's rows by, as vcpu or memory-gib; vcpu:desc has the greatest first")
	return limitFlag(cmd, what)
}

// pageSize gives how many rows to ask for next, out of limit (0: all), when have are there.
func pageSize(limit, have int) int32 {
	if limit == 0 {
		return maxPage
	}
	return int32(min(limit-have, maxPage))
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// nothing prints a line in place of a table without rows.
func nothing(p *page, what string, missing []string) {
	p.printf("no %s match\n", what)
	footer(p, what, 0, false, missing)
}

// footer says which rows a list lacks.
func footer(p *page, what string, shown int, more bool, missing []string) {
	if p.cut {
		shown, more = p.first, true
	}
	if more {
		p.note("%d %s shown; there are more: --limit 0 shows all", shown, what)
	}
	if len(missing) > 0 {
		p.note("without those of %s: no answer", strings.Join(missing, ", "))
	}
}

// ask calls one method of a service with in. show prints the answer as a table.
func ask[S any, I, M proto.Message](c *client, cmd *cobra.Command, service func(grpc.ClientConnInterface) S, method func(S, context.Context, I, ...grpc.CallOption) (M, error), in I, show func(*page, M)) error {
	return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (M, error) {
		return method(service(conn), ctx, in)
	}, show)
}

// listAnswer is one page of a list.
type listAnswer interface {
	proto.Message
	GetNextPageToken() string
	GetUnavailableCells() []string
}

// setField sets a field of a message by its name.
func setField(m proto.Message, name protoreflect.Name, v any) {
	of := m.ProtoReflect()
	of.Set(of.Descriptor().Fields().ByName(name), protoreflect.ValueOf(v))
}

// eachPage calls a list page by page, from the page that in names, until there is no next one or do
// gives false.
func eachPage[I proto.Message, M listAnswer](ctx context.Context, in I, call func(context.Context, I, ...grpc.CallOption) (M, error), do func(M) bool) error {
	for {
		page, err := call(ctx, in)
		if err != nil {
			return err
		}
		setField(in, "page_token", page.GetNextPageToken())
		if !do(page) || page.GetNextPageToken() == "" {
			return nil
		}
	}
}

// list asks for pages until it has limit rows; 0 means all. rows names the answer's field of rows. show
// prints all pages as one.
func list[S any, I proto.Message, M listAnswer](c *client, cmd *cobra.Command, limit *limit, rows protoreflect.Name, service func(grpc.ClientConnInterface) S, method func(S, context.Context, I, ...grpc.CallOption) (M, error), in I, show func(*page, M)) error {
	most := int(*limit)
	if by, _ := cmd.Flags().GetString("sort"); by != "" && isTable(cmd) {
		most = 0 // only all rows together tell which sort first
	}
	return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (all M, err error) {
		setField(in, "page_token", "") // of an earlier call, with --watch
		setField(in, "page_size", pageSize(most, 0))
		have, missing, next := 0, []string(nil), ""
		err = eachPage(ctx, in, func(ctx context.Context, in I, _ ...grpc.CallOption) (M, error) {
			return method(service(conn), ctx, in)
		}, func(page M) bool {
			missing, next = union(missing, page.GetUnavailableCells()), page.GetNextPageToken()
			m := page.ProtoReflect()
			n := m.Get(m.Descriptor().Fields().ByName(rows)).List().Len()
			if have == 0 {
				all = page
			} else {
				proto.Merge(all, page)
			}
			have += n
			setField(in, "page_size", pageSize(most, have))
			return most == 0 || have < most
		})
		if err == nil {
			setField(all, "next_page_token", next)
			cells := all.ProtoReflect().Mutable(all.ProtoReflect().Descriptor().Fields().ByName("unavailable_cells")).List()
			cells.Truncate(0)
			for _, cell := range missing {
				cells.Append(protoreflect.ValueOf(cell))
			}
		}
		return all, err
	}, func(p *page, m M) {
		if most == 0 {
			p.first = int(*limit)
		}
		show(p, m)
		if unknown, ok := any(m).(interface{ GetUnknownValues() []string }); ok {
			for _, text := range unknown.GetUnknownValues() {
				p.note("%s", printable(text))
			}
		}
	})
}

// isTable reports whether the answer is shown as a table, which --sort sorts.
func isTable(cmd *cobra.Command) bool {
	form, _ := cmd.Flags().GetString("output")
	return form == "table" || form == "wide" || form == "name"
}
