package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/importer"
	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// instances names those that cannot be imported, and those on a move.
func (u *upgrade) instances(reader *legacy.Reader, x *legacy.Snapshot) error {
	rows := &movingRows{Rows: reader, moving: map[string]legacy.Instance{}}
	m, err := importer.New(importer.Config{Cell: u.conf.Cell, Rows: rows, StepHosts: max(len(x.Hosts), 1), Pause: -1, MaxLeftOut: 100_000})
	if err != nil {
		return err
	}
	r, err := m.Step(u.ctx, x, nobody{})
	if err != nil {
		return err
	}
	u.moves(rows.moving, x.At)
	do := map[importer.Reason]string{
		importer.NoRow:      "see where it is: delete or evacuate the instance, or bring its host's row back",
		importer.NullAmount: "its flavor's amounts are missing in its row: nova-manage db online_data_migrations; what it uses stays reserved until then",
		importer.BadAmount:  "correct the row of instances",
		importer.BadUUID:    "correct the row of instances",
		importer.BadHost:    "restart its nova-compute, which writes the row anew",
	}
	by := map[importer.Reason][]diagnosis{}
	for _, l := range r.LeftOut {
		what := "host " + l.Host
		if l.Instance {
			what = "instance " + l.UUID + " on " + l.Host
		}
		by[l.Reason] = append(by[l.Reason], diagnosis{Check: what, What: l.Detail, Do: do[l.Reason]})
	}
	for _, why := range slices.Sorted(maps.Keys(by)) {
		status := warned
		if why == importer.NoRow || why == importer.BadHost {
			status = unhealthy
		}
		u.each("instances: "+string(why), status, by[why])
	}
	if len(by) == 0 {
		u.doctor.ok(u.conf.Cell+" instances", "%s on hosts, each on a host with a row", counted(r.Instances, "instance"))
	}
	return u.unclaimed(reader, x, m, r.Instances)
}

// unclaimed names the hosts of instances that have no claim in the shard. On a host that
// is its agent's nobody imports what that does not list; on others an import brings it.
func (u *upgrade) unclaimed(reader *legacy.Reader, x *legacy.Snapshot, m *importer.Importer, instances int) error {
	if !u.heard {
		return nil
	}
	ctx, cancel := context.WithTimeout(u.ctx, time.Minute)
	defer cancel()
	found, err := m.FindUnclaimed(ctx, x, u.scheduler)
	if err == nil && len(found.Found) > 0 {
		// Some are deleted at this moment, perhaps: those that stay count.
		select {
		case <-time.After(lookOnceMore):
		case <-ctx.Done():
			return ctx.Err()
		}
		if x, err = reader.Refresh(ctx, x); err == nil {
			_, err = m.Step(ctx, x, nobody{})
		}
		if err != nil {
			return err
		}
		if found, err = m.FindUnclaimed(ctx, x, u.scheduler); err == nil {
			found.Found = slices.DeleteFunc(found.Found, func(i importer.UnclaimedInstance) bool { return !i.Lasting })
		}
	}
	if err != nil {
		u.say("claims", warned, "the cell does not say which instances have no claim: "+problemOf(err), "replace the cell's scheduler by one of this version, then the gateways; cellgate import --dry-run lists them meanwhile")
		return nil
	}
	names, on, waiting := []string{}, map[string][]string{}, 0
	for _, i := range found.Found {
		if in := u.agents[i.HostUUID]; in == nil || in.GetAgentVersion() == 0 || in.GetImported() {
			waiting++
			continue
		}
		if on[i.HostUUID] == nil {
			names = append(names, i.HostUUID)
		}
		on[i.HostUUID] = append(on[i.HostUUID], i.UUID)
	}
	var all []diagnosis
	for _, id := range names {
		all = append(all, withoutClaims(u.agents[id], on[id]))
	}
	u.each("claims", unhealthy, all)
	if waiting > 0 {
		u.say("claims", warned, counted(waiting, "instance")+" of hosts without an agent have no claim yet: an import brings them", "run a gateway with this configuration, or cellgate import --cell "+u.conf.Cell+" --once")
	}
	if len(found.Found) == 0 {
		u.doctor.ok(u.conf.Cell+" claims", "each of %s has one", counted(instances, "instance"))
	}
	return nil
}

// lookOnceMore is how long after a look that found something the next one is made.
const lookOnceMore = 3 * time.Second

// withoutClaims says of an agent's host that some instances of its rows have no claim.
func withoutClaims(h *cellgatev1.Host, instances []string) diagnosis {
	const most = 3
	text := strings.Join(instances[:min(len(instances), most)], ", ")
	if len(instances) > most {
		text += ", …"
	}
	return diagnosis{
		Check: "claims on " + h.GetServiceHost(),
		What:  counted(len(instances), "instance") + " of Nova's rows on this agent's host have no claim in the shard, so that others would be placed on their room: " + text,
		Do:    "complete the agent's instances_dir, or leave that empty and restart the agent: the importer adopts them then. Delete rows of instances that are gone. The gate does not open before; cellgate cells pin CELL native overrides it",
	}
}

// nobody takes hosts and does nothing.
type nobody struct{}

func (nobody) ImportHosts(_ context.Context, in *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	out := &cellv1.ImportHostsResponse{}
	for range in.GetHosts() {
		out.Outcomes = append(out.Outcomes, &cellv1.ImportOutcome{Unchanged: true})
	}
	return out, nil
}
