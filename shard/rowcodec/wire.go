package rowcodec

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"cellgate/shard"
)

var errText = errors.New("a text of a row is not UTF-8")

// wire writes the storagev1 messages of the rows that every claim writes, byte for byte as proto.Marshal does, but
// without building the messages.
type wire struct {
	b []byte
	// bad: a text was not UTF-8.
	bad bool
}

func (w *wire) text(field protowire.Number, s string) {
	if s != "" {
		w.member(field, s)
	}
}

func (w *wire) bytes(field protowire.Number, b []byte) {
	if len(b) > 0 {
		w.b = protowire.AppendBytes(protowire.AppendTag(w.b, field, protowire.BytesType), b)
	}
}

func (w *wire) number(field protowire.Number, n int64) {
	if n != 0 {
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, field, protowire.VarintType), uint64(n))
	}
}

func (w *wire) flag(field protowire.Number, is bool) {
	if is {
		w.number(field, 1)
	}
}

// message writes a message nested in the current one.
func (w *wire) message(field protowire.Number, body func()) {
	w.b = append(protowire.AppendTag(w.b, field, protowire.BytesType), 0)
	at := len(w.b)
	body()
	n := len(w.b) - at
	// The length is before the body; most lengths take one byte.
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		w.b = append(w.b, make([]byte, more)...)
		copy(w.b[at+more:], w.b[at:at+n])
	}
	protowire.AppendVarint(w.b[:at-1], uint64(n))
}

func (w *wire) used(field protowire.Number, list []shard.Used) {
	for i := range list {
		w.message(field, func() {
			w.text(1, list[i].ProviderUUID)
			w.text(2, list[i].ResourceClass)
			w.number(3, list[i].Amount)
		})
	}
}

// usage writes storagev1.Usage.
func (w *wire) usage(u *shard.Usage) {
	w.text(1, u.HostUUID)
	w.number(2, u.Generation)
	w.used(3, u.Used)
	w.number(4, int64(u.Pending))
	w.number(5, int64(u.Confirmed))
}

// claim writes storagev1.Claim.
func (w *wire) claim(c *shard.Claim) {
	w.text(1, c.ClaimID)
	w.text(2, c.ConsumerUUID)
	w.number(3, int64(stateRow(c.State)))
	w.text(4, c.HostUUID)
	w.text(5, c.ServiceHost)
	w.used(6, c.Allocations)
	if g := c.Group; g != nil {
		w.message(7, func() {
			w.text(1, g.UUID)
			w.text(2, g.Policy)
			w.number(3, int64(g.MaxPerHost))
			for _, m := range g.Members {
				w.member(4, m)
			}
		})
	}
	w.text(8, c.ProjectID)
	w.text(9, c.UserID)
	w.text(10, c.RequestID)
	w.bytes(11, c.Fingerprint)
	w.text(12, c.DecisionID)
	w.number(13, int64(c.InstanceIndex))
	w.bytes(14, c.Answer)
	w.flag(15, c.Adopted)
	w.number(16, Nanos(c.ExpiresAt))
	w.number(17, Nanos(c.CreatedAt))
	w.number(18, Nanos(c.UpdatedAt))
	w.text(19, c.Moves)
	w.text(20, c.MovesCell)
	w.text(21, c.TransferredFrom)
	w.text(22, c.Attempt)
	if g := c.Guest; g != nil {
		w.message(23, func() {
			w.text(1, g.FlavorID)
			w.bytes(2, g.Image)
			w.bytes(3, g.Hardware)
			w.flag(4, g.Awaited)
			w.bytes(5, assignedRow(g))
		})
	}
	w.number(24, int64(c.TTL))
	w.flag(25, c.Seen)
	if v := c.Verdict; v != nil {
		w.message(26, func() { w.verdict(v) })
	}
	for i := range c.Rejections {
		r := &c.Rejections[i]
		w.message(27, func() {
			w.text(1, r.HostUUID)
			w.text(2, r.ServiceHost)
			w.message(3, func() { w.verdict(&r.Verdict) })
		})
	}
	w.flag(28, c.Allocated)
	w.number(29, c.ConsumerGeneration)
	w.text(30, c.ConsumerType)
	w.flag(31, c.ForMigration)
}

// verdict writes storagev1.Verdict.
func (w *wire) verdict(v *shard.Verdict) {
	w.text(1, string(v.Outcome))
	w.text(2, v.Reason)
	w.text(3, v.Detail)
	w.text(4, v.BootID)
	w.number(5, int64(v.Version))
	w.number(6, Nanos(v.At))
}

// member writes an element of a list of texts, which may be empty.
func (w *wire) member(field protowire.Number, s string) {
	w.bad = w.bad || !utf8.ValidString(s)
	w.b = protowire.AppendString(protowire.AppendTag(w.b, field, protowire.BytesType), s)
}
