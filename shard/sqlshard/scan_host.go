package sqlshard

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
)

// queueHosts asks for hosts whole.
func queueHosts(b *pgx.Batch, uuids []string) {
	for _, sql := range []string{readHosts, readFacts, readProviders, readInventories, readTraits, readAggregates} {
		b.Queue(sql, uuids)
	}
}

// scanHosts reads the answers to queueHosts, in the order of uuids.
func scanHosts(r pgx.BatchResults) ([]*shard.Host, error) {
	s := hostScan{hosts: map[string]*shard.Host{}, providers: map[string]int{}}
	for _, scan := range []func(pgx.Rows) error{s.host, s.facts, s.provider, s.inventory, s.trait, s.aggregate} {
		rows, err := r.Query()
		if err == nil {
			err = scan(rows)
		}
		if err != nil {
			return nil, err
		}
	}
	return s.list, nil
}

// hostScan puts hosts together.
type hostScan struct {
	hosts map[string]*shard.Host
	list  []*shard.Host
	// providers is where a provider stands in its host, by both uuids.
	providers map[string]int
}

func (s *hostScan) host(rows pgx.Rows) error {
	var h shard.Host
	var version int64
	var nova string
	_, err := pgx.ForEachRow(rows, []any{
		&h.UUID, &h.Generation, &h.ServiceHost, &h.NodeName, &h.Disabled, &h.DisabledReason, &h.IOWorkload, &h.FailedBuilds,
		&h.HypervisorType, &h.HypervisorVersion, &h.HostIP, &h.AgentVersion, &h.BootID, &version, &h.Imported,
		&h.InstancesUnknown, &nova,
	}, func() error {
		one := h
		one.StateVersion = uint64(version)
		if nova != "" {
			if err := json.Unmarshal([]byte(nova), &one.Nova); err != nil {
				return damaged("what Nova says of host %s cannot be read: %v", h.UUID, err)
			}
		}
		s.hosts[one.UUID] = &one
		s.list = append(s.list, &one)
		return nil
	})
	return err
}

// hostOf gives the host that a row belongs to.
func (s *hostScan) hostOf(uuid string) (*shard.Host, error) {
	if h := s.hosts[uuid]; h != nil {
		return h, nil
	}
	return nil, damaged("host %s has rows and is none", uuid)
}

func (s *hostScan) facts(rows pgx.Rows) error {
	var id string
	var f shard.Facts
	_, err := pgx.ForEachRow(rows, []any{&id, &f.CPUInfo, &f.SupportedInstances, &f.Stats, &f.Metrics, &f.NUMATopology, &f.PCIStats, &f.Namespaces}, func() error {
		h, err := s.hostOf(id)
		if err == nil {
			one := f
			h.Facts = &one
		}
		return err
	})
	return err
}

func (s *hostScan) provider(rows pgx.Rows) error {
	var id string
	var p shard.Provider
	_, err := pgx.ForEachRow(rows, []any{&id, &p.UUID, &p.ParentUUID, &p.Name}, func() error {
		h, err := s.hostOf(id)
		if err == nil {
			s.providers[id+" "+p.UUID] = len(h.Providers)
			h.Providers = append(h.Providers, p)
		}
		return err
	})
	return err
}

// in gives the provider that a row belongs to.
func (s *hostScan) in(host, provider string) (*shard.Provider, error) {
	i, ok := s.providers[host+" "+provider]
	if !ok {
		return nil, damaged("provider %s of host %s has rows and is none", provider, host)
	}
	return &s.hosts[host].Providers[i], nil
}

func (s *hostScan) inventory(rows pgx.Rows) error {
	var host, provider string
	var i shard.Inventory
	_, err := pgx.ForEachRow(rows, []any{
		&host, &provider, &i.ResourceClass, &i.Total, &i.Reserved, &i.MinUnit, &i.MaxUnit, &i.StepSize, &i.AllocationRatio, &i.Unaccounted,
	}, func() error {
		p, err := s.in(host, provider)
		if err == nil {
			p.Inventories = append(p.Inventories, i)
		}
		return err
	})
	return err
}

func (s *hostScan) trait(rows pgx.Rows) error {
	var host, provider, trait string
	_, err := pgx.ForEachRow(rows, []any{&host, &provider, &trait}, func() error {
		p, err := s.in(host, provider)
		if err == nil {
			p.Traits = append(p.Traits, trait)
		}
		return err
	})
	return err
}

func (s *hostScan) aggregate(rows pgx.Rows) error {
	var id, metadata string
	var a shard.Aggregate
	_, err := pgx.ForEachRow(rows, []any{&id, &a.UUID, &a.Name, &metadata}, func() error {
		h, err := s.hostOf(id)
		if err != nil {
			return err
		}
		one := a
		if metadata != "" {
			if err := json.Unmarshal([]byte(metadata), &one.Metadata); err != nil {
				return damaged("the metadata of aggregate %s of host %s cannot be read: %v", a.UUID, id, err)
			}
		}
		h.Aggregates = append(h.Aggregates, one)
		return nil
	})
	return err
}

// loadHosts reads hosts whole, in one trip, and keeps them.
func (s *Store) loadHosts(ctx context.Context, c *pgx.Conn, uuids []string) ([]*shard.Host, error) {
	b := &pgx.Batch{}
	queueHosts(b, uuids)
	r := c.SendBatch(ctx, b)
	hosts, err := scanHosts(r)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		s.hosts.put(h)
	}
	return hosts, nil
}
