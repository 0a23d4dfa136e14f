package novadb

import (
	"cmp"
	"database/sql"
	"time"

	"cellgate/schedule"
)

// Snapshot is the content of a cell's databases. It never changes, and shares unchanged
// parts with the snapshot before it.
type Snapshot struct {
	CellUUID string
	// CellDisabled is the column disabled of cell_mappings.
	CellDisabled bool
	// TransportURL is the transport_url of the cell's message bus in cell_mappings, as Nova
	// wrote it: with a password, or with names in braces that stand for parts of Nova's own
	// transport_url.
	TransportURL string
	// At is the time of the cell's database server when it was read, in UTC. Readers measure
	// the age since then with their own clock.
	At time.Time
	// Heartbeat is the newest heartbeat of any live service, not only nova-compute's. Written
	// is the newest time of heartbeats, of the rows of services, and of compute_nodes: of two
	// snapshots, the one with the later Written has the newer data, also if the database has a
	// replica that is behind. Times later than At by more than service_down_time do not count;
	// zero: there is none.
	Heartbeat, Written time.Time
	// Ahead is how much later than At the newest heartbeat of any live service is; 0 if it is not later.
	Ahead time.Duration
	// Took is how long the reading and joining took, by this process's clock.
	Took time.Duration
	// Full: every row was read; otherwise only rows that were not known.
	Full bool
	Read RowsRead
	// Hosts are sorted by the ids of their compute nodes; no two have the same uuid.
	Hosts []Host
	// Services are sorted by id; they include those of hosts that are left out.
	Services []Service
	// LeftOut are the first rows, by id, that are no hosts; at most Config.MaxLeftOut.
	LeftOut []LeftOut
	// LeftOutBy counts all of them.
	LeftOutBy map[Reason]int
	// Unusable has, by the id of their service, the uuids of rows that are no hosts only because
	// of their own content: Nova has these compute nodes.
	Unusable map[int64][]schedule.ID

	of       *Reader
	revision uint64
	nodes    []tracked
	api      *apiData
	down     time.Duration
}

// RowsRead counts the rows of compute_nodes that the server sent, and their stamps.
type RowsRead struct{ ComputeNodes, Stamps int }

// Host is a host of a snapshot.
type Host struct {
	// Host has Down as of Snapshot.At.
	schedule.Host
	// NodeID is the id of its compute_nodes row, ServiceID that of its services row.
	NodeID, ServiceID int64
	// Revision is greater than in the snapshot before if the row has changed. It does not
	// cover service and aggregates.
	Revision uint64

	service *Service
}

// LeftOut is a live row of compute_nodes that is no host.
type LeftOut struct {
	NodeID int64  `json:"node_id"`
	UUID   string `json:"uuid"`
	Host   string `json:"host"`
	Node   string `json:"node"`
	Reason Reason `json:"reason"`
	// Column is the column that causes it; empty if there is none.
	Column string `json:"column"`
	Detail string `json:"detail"`
}

// Reason says why a row is no host.
type Reason string

// The reasons, in the order in which they are checked.
const (
	// NoHost: no host name, as in rows from before Kilo, and no live service has the
	// row's service_id.
	NoHost Reason = "no_host"
	// NoService: no live nova-compute service has the host's name.
	NoService Reason = "no_service"
	// Unmapped: the host is not mapped to the cell (nova-manage cell_v2 discover_hosts).
	Unmapped Reason = "unmapped"
	// BadUUID: no uuid, or one that another row has.
	BadUUID Reason = "bad_uuid"
	// NoNode: no hypervisor_hostname.
	NoNode Reason = "no_node"
	// NullColumn: a column that Nova needs is NULL.
	NullColumn Reason = "null_column"
	// NegativeTotal: a total below zero.
	NegativeTotal Reason = "negative_total"
	// NotReported: free_disk_gb is NULL, the compute has not reported yet.
	NotReported Reason = "not_reported"
	// Unreadable: a text is invalid, most often as JSON.
	Unreadable Reason = "unreadable"
	// NotImportable: a cell would not take the host, so nothing could be claimed there.
	NotImportable Reason = "not_importable"
)

// Reader gives the reader that made the snapshot.
func (x *Snapshot) Reader() *Reader { return x.of }

// ServicesByID are the Services by the ids of their rows.
func (x *Snapshot) ServicesByID() map[int64]*Service {
	m := make(map[int64]*Service, len(x.Services))
	for i := range x.Services {
		m[x.Services[i].ID] = &x.Services[i]
	}
	return m
}

// hostName gives the row's host name, or its service's if it has none.
func (n *node) hostName(services map[int64]*Service) string {
	if n.row.host.Valid {
		return n.row.host.String
	}
	if s := services[n.row.serviceID.Int64]; s != nil && n.row.serviceID.Valid {
		return s.Host
	}
	return ""
}

// join makes Hosts and LeftOut from the rows.
func (x *Snapshot) join(most int) {
	byID := x.ServicesByID()
	byHost := make(map[string]*Service, len(x.Services))
	for i := range x.Services {
		byHost[x.Services[i].Host] = &x.Services[i]
	}
	x.Hosts = make([]Host, 0, len(x.nodes))
	x.LeftOutBy, x.Unusable = map[Reason]int{}, map[int64][]schedule.ID{}
	rows := make(map[schedule.ID]int64, len(x.nodes))
	for i := range x.nodes {
		n := x.nodes[i].node
		name := n.hostName(byID)
		service := byHost[name]
		misplaced := x.misplaced(n, name, service)
		why := cmp.Or(misplaced, n.why)
		if why == nil && x.api != nil && !x.of.conf.KeepUnreadable {
			why = n.tooManyAggregates(x.api.aggregates[name])
		}
		if why == nil {
			if other, there := rows[n.host.UUID]; there {
				why = n.row.leave(BadUUID, "uuid", "is that of row %d too", other)
			}
		}
		if why != nil {
			x.leave(why, most)
			if id, err := schedule.ParseID(n.row.uuid.String); misplaced == nil && err == nil && why.Reason != BadUUID {
				x.Unusable[service.ID] = append(x.Unusable[service.ID], id)
			}
			continue
		}
		rows[n.host.UUID] = n.row.id
		h := Host{
			Host: n.host, NodeID: n.row.id, ServiceID: service.ID,
			Revision: n.revision, service: service,
		}
		h.Cell = x.CellUUID
		h.ServiceHost, h.Disabled, h.Down = name, service.Disabled, !x.Up(service, x.At, x.down)
		if x.api != nil {
			h.Aggregates = x.api.aggregates[name]
		}
		x.Hosts = append(x.Hosts, h)
	}
}

// A cell accepts a host in at most mostAggregates aggregates, each with at most mostMetadata pairs of metadata.
const mostAggregates, mostMetadata = 256, 256

func (n *node) tooManyAggregates(in []schedule.Aggregate) *LeftOut {
	if len(in) > mostAggregates {
		return n.row.leave(NotImportable, "", "it is in %d aggregates, a cell takes a host in %d at most", len(in), mostAggregates)
	}
	for i := range in {
		if pairs := len(in[i].Metadata); pairs > mostMetadata {
			return n.row.leave(NotImportable, "", "its aggregate %s has %d pairs of metadata, a cell takes %d at most", in[i].UUID, pairs, mostMetadata)
		}
	}
	return nil
}

func (x *Snapshot) leave(why *LeftOut, most int) {
	x.LeftOutBy[why.Reason]++
	if len(x.LeftOut) < most {
		x.LeftOut = append(x.LeftOut, *why)
	}
}

// misplaced gives the reason why a row is no host, whatever its content.
func (x *Snapshot) misplaced(n *node, name string, service *Service) *LeftOut {
	switch {
	case name == "":
		return n.row.leave(NoHost, "host", "is NULL, and service_id names no live service")
	case service == nil:
		why := n.row.leave(NoService, "", "no live nova-compute service has exactly this host")
		why.Host = name
		return why
	case x.api == nil || x.api.mapped[x.api.sameHost(name)]:
		return nil
	}
	why := n.row.leave(Unmapped, "", "host_mappings does not have it in this cell")
	why.Host = name
	return why
}

// RatioUse counts the rows that have no allocation ratio of a resource: NULL or 0.0.
type RatioUse struct {
	Resource string
	// Unset is the number of such rows, Becomes the ratio that they get from the options.
	Unset   int
	Becomes float64
}

// Ratios gives, for each resource, how many compute nodes have no ratio.
func (x *Snapshot) Ratios() []RatioUse {
	o := x.of.options
	all := []RatioUse{{Resource: "cpu", Becomes: o.CPUAllocationRatio}, {Resource: "ram", Becomes: o.RAMAllocationRatio}, {Resource: "disk", Becomes: o.DiskAllocationRatio}}
	for i := range x.nodes {
		row := &x.nodes[i].row
		for k, r := range []sql.NullFloat64{row.cpuRatio, row.ramRatio, row.diskRatio} {
			u := &all[k]
			if !r.Valid || r.Float64 == 0 {
				u.Unset++
			}
		}
	}
	return all
}
