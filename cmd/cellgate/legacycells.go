package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cellgate/gateway"
	"cellgate/gateway/legacy/gatewatch"
	"cellgate/gateway/legacy/importer"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/config"
)

// legacyParts makes, by cell name, what answers for the gateway's cells that are under upgrade. It
// connects to nothing.
func legacyParts(g config.Gateway, cells []gateway.CellConfig, log *slog.Logger) (map[string]gatewatch.Parts, error) {
	parts := map[string]gatewatch.Parts{}
	var problems []error
	for i := range cells {
		for _, c := range g.Legacy {
			if c.Cell != cells[i].Name {
				continue
			}
			made, err := legacyPart(c, cells[i].UUID, log.With("cell", c.Cell))
			if err != nil {
				problems = append(problems, err)
				continue
			}
			parts[c.Cell] = made
		}
	}
	return parts, errors.Join(problems...)
}

func legacyPart(c config.LegacyCell, uuid string, log *slog.Logger) (gatewatch.Parts, error) {
	conf, err := readerConfig(c, uuid)
	if err != nil {
		return gatewatch.Parts{}, err
	}
	if err := conf.Check(); err != nil {
		return gatewatch.Parts{}, fmt.Errorf("gateway.legacy: cell %s: %w", c.Cell, err)
	}
	imports, err := importer.New(importer.Config{Cell: c.Cell})
	if err != nil {
		return gatewatch.Parts{}, fmt.Errorf("gateway.legacy: cell %s: %w", c.Cell, err)
	}
	return gatewatch.Parts{
		Config: gatewatch.Config{Refresh: c.Refresh, ServiceDownTime: c.ServiceDownTime, RequiredVersion: c.RequiredVersion, Only: c.Only},
		Open: func(ctx context.Context) (gatewatch.Reader, error) {
			r, err := novadb.Open(ctx, conf)
			if err != nil {
				return nil, err // not a reader that is nil
			}
			return r, nil
		},
		Importer: func(to *gatewatch.Gate) gatewatch.Importer {
			return importer.NewWorker(imports, to, logImports(log))
		},
	}, nil
}

// behindFor is how long data must be current before the gateway logs that: an address may lead to
// several servers in turn.
const behindFor = time.Minute

// logImports returns a function that logs when imports begin to fail and when they work again, when
// instances have no claim, when the data are behind, and what the import changed.
func logImports(log *slog.Logger) func(importer.Report, error) {
	failing, unclaimed := false, false
	var behind time.Time // when they were last, zero for not
	return func(r importer.Report, err error) {
		switch {
		case err != nil && !failing:
			log.Warn("legacy hosts are not imported", "error", err)
		case err == nil && failing:
			log.Info("legacy hosts are imported again")
		}
		failing = err != nil
		switch without := r.Unclaimed > 0; {
		case without && !unclaimed:
			log.Warn("instances of Nova's tables have no claim in the shard: the gate does not open (cellgate doctor upgrade says what to do)", "instances", r.Unclaimed, "some", r.FirstUnclaimed)
		case !without && unclaimed && err == nil:
			log.Info("every instance of Nova's tables has a claim in the shard")
		}
		unclaimed = r.Unclaimed > 0 || unclaimed && err != nil
		switch is := r.Behind > 0 || r.Outdated > 0; {
		case is && behind.IsZero():
			log.Warn("legacy hosts are not imported from older data than there were: this gateway reads a copy of Nova's database that is behind", "by", r.Behind, "hosts_with_newer_imports", r.Outdated)
		case !is && !behind.IsZero() && err == nil && r.At.Sub(behind) >= behindFor:
			behind = time.Time{}
			log.Info("the legacy database is not behind any more", "claims_newer_than_rows", r.NewerClaimsSkipped)
		}
		if r.Behind > 0 || r.Outdated > 0 {
			behind = r.At
		}
		log.Debug("imported legacy hosts", "report", r)
	}
}
