package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/errgroup"

	"cellgate/internal/keystone"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// placementCalls is how many instances of one request are written at once.
	placementCalls = 8
	// placementRaces is how often a write is repeated after a concurrent update, as in Nova.
	placementRaces = 4
	// consumerVersion is the first microversion whose allocations have the consumer's generation.
	consumerVersion = "1.28"
)

// errPlacementFull: Placement has no room on a host on which the cell has room, or does not have the host's provider.
var errPlacementFull = errors.New("the allocation is refused by Placement")

// errPlacementChanged: another process wrote allocations of the consumer meanwhile.
var errPlacementChanged = errors.New("another process changed the allocations of the consumer")

// allocations writes allocations to Placement, beside the cells' shards. Safe for concurrent use.
type allocations struct{ placement *keystone.Service }

// owner is the project and the user of the instances.
type owner struct{ project, user string }

// write writes the allocations of an answer, all or none, as nova-scheduler does. If Placement
// refuses a host (errPlacementFull), full is its service host. If ctx is cancelled, what was written
// stays: the message is delivered again, and the next gateway may have written the same.
func (w *allocations) write(ctx context.Context, all []*cellgatev1.Destinations, of owner) (full string, err error) {
	c, err := w.placement.Client(ctx)
	if err != nil {
		return "", err
	}
	// The calls are not cancelled when one fails: it would be unknown whether they wrote.
	var calls errgroup.Group
	calls.SetLimit(placementCalls)
	var mu sync.Mutex
	var written []string
	for _, d := range all {
		s := d.GetSelected()
		if s.GetAllocationRequest() == "" {
			continue // a rebuild
		}
		calls.Go(func() error {
			created, err := claimAt(ctx, c, d.GetInstanceUuid(), s, of)
			mu.Lock()
			defer mu.Unlock()
			if created {
				written = append(written, d.GetInstanceUuid())
			}
			if errors.Is(err, errPlacementFull) {
				full = s.GetServiceHost()
			}
			return err
		})
	}
	if err = calls.Wait(); err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keystone.Timeout)
	defer cancel()
	for _, id := range written {
		if derr := call(ctx, c, http.MethodDelete, id, consumerVersion, nil, nil, http.StatusNoContent, http.StatusNotFound); derr != nil {
			err = errors.Join(err, fmt.Errorf("the allocations of instance %s stay, until `nova-manage placement audit` finds them: %w", id, derr))
		}
	}
	return full, err
}

// claimAt writes the allocations of one instance. If the instance has allocations already, as in
// an evacuation, it keeps them beside the new ones; created is true if it had none.
func claimAt(ctx context.Context, c *gophercloud.ServiceClient, consumer string, s *cellgatev1.Selection, of owner) (created bool, err error) {
	var body struct {
		Allocations map[string]any `json:"allocations"`
		Mappings    any            `json:"mappings,omitempty"`
	}
	if err := json.Unmarshal([]byte(s.GetAllocationRequest()), &body); err != nil {
		return false, fmt.Errorf("the allocation request of host %s: %w", s.GetServiceHost(), err)
	}
	asked := map[string]any{"allocations": body.Allocations, "project_id": of.project, "user_id": of.user, "consumer_generation": nil}
	if body.Mappings != nil {
		asked["mappings"] = body.Mappings
	}
	created = true
	for race := 0; ; race++ {
		err := call(ctx, c, http.MethodPut, consumer, s.GetAllocationRequestVersion(), asked, nil, http.StatusNoContent)
		code, detail := whyRefused(err)
		switch {
		case err == nil:
			return created, nil
		case code == "placement.concurrent_update" && race >= placementRaces:
			return false, errPlacementChanged
		case code == "placement.concurrent_update" && strings.Contains(detail, "consumer generation conflict"):
			created = false
			if err := besideCurrent(ctx, c, consumer, body.Allocations, asked); err != nil {
				return false, err
			}
		case code == "placement.concurrent_update": // the provider's generation changed, by another instance's write
		case code != "":
			return false, fmt.Errorf("%w of instance %s on host %s: %s", errPlacementFull, consumer, s.GetServiceHost(), detail)
		default:
			return false, err
		}
	}
}

// besideCurrent adds the consumer's present allocations to those to write.
func besideCurrent(ctx context.Context, c *gophercloud.ServiceClient, consumer string, wanted, asked map[string]any) error {
	var current struct {
		Allocations map[string]struct {
			Resources map[string]int64 `json:"resources"`
		} `json:"allocations"`
		Generation *int64 `json:"consumer_generation"`
	}
	if err := call(ctx, c, http.MethodGet, consumer, consumerVersion, nil, &current, http.StatusOK); err != nil {
		return err
	}
	both := maps.Clone(wanted)
	for provider, a := range current.Allocations {
		both[provider] = map[string]any{"resources": a.Resources}
	}
	delete(asked, "mappings")
	asked["allocations"], asked["consumer_generation"] = both, current.Generation
	return nil
}

// call calls Placement's API for the allocations of a consumer.
func call(ctx context.Context, c *gophercloud.ServiceClient, method, consumer, version string, body, into any, ok ...int) error {
	ctx, cancel := context.WithTimeout(ctx, keystone.Timeout)
	defer cancel()
	resp, err := c.Request(ctx, method, c.ServiceURL("allocations", consumer), &gophercloud.RequestOpts{
		JSONBody: body, JSONResponse: into, OkCodes: ok,
		MoreHeaders: map[string]string{"OpenStack-API-Version": "placement " + version},
	})
	if err == nil && into == nil {
		_ = resp.Body.Close() // the body is empty
	}
	return err
}

// whyRefused gives the code and the text of a refusal: a conflict, or a provider that Placement does not have. Both are
// empty for any other error.
func whyRefused(err error) (code, detail string) {
	var e gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &e) || e.Actual != http.StatusConflict && e.Actual != http.StatusBadRequest {
		return "", ""
	}
	var body struct {
		Errors []struct{ Code, Detail string } `json:"errors"`
	}
	if json.Unmarshal(e.Body, &body) != nil || len(body.Errors) == 0 {
		return "unknown", string(e.Body[:min(len(e.Body), 200)])
	}
	return body.Errors[0].Code, body.Errors[0].Detail
}
