package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cellgate/gateway/placement"
)

// Client reads and writes a Placement through its API. Safe for concurrent use.
type Client struct {
	base  string
	http  *http.Client
	token func(context.Context) (string, error)
	// version is the newest microversion that both sides know.
	version string
	// hasTypes: the microversion is at least 1.38, so consumers have types.
	hasTypes bool
}

const (
	oldestVersion = 28 // generations of consumers
	newestVersion = 39
	typesVersion  = 38
	// maxAnswer bounds one answer, in bytes: a list of 100,000 providers has 80 MB.
	maxAnswer = 256 << 20
	// callTimeout bounds one call, with the reading of its answer.
	callTimeout = time.Minute
)

// ErrTooOld is the error for a Placement older than microversion 1.28 (Rocky).
var ErrTooOld = errors.New("this Placement has no microversion 1.28: its consumers have no generations")

// NewClient asks the Placement at base for its microversions. token is called for each request, and gives the token
// of a user with the role admin or service.
func NewClient(ctx context.Context, base string, transport http.RoundTripper, token func(context.Context) (string, error)) (*Client, error) {
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the address %q of Placement is no http or https URL", base)
	}
	c := &Client{base: strings.TrimSuffix(base, "/"), http: &http.Client{Transport: transport, Timeout: callTimeout}, token: token, version: "1.0"}
	var doc struct {
		Versions []struct {
			Max string `json:"max_version"`
		} `json:"versions"`
	}
	if err := c.get(ctx, "/", &doc); err != nil {
		return nil, err
	}
	if len(doc.Versions) == 0 {
		return nil, fmt.Errorf("%s does not answer as a Placement: no versions", base)
	}
	text, is1 := strings.CutPrefix(doc.Versions[0].Max, "1.")
	minor, err := strconv.Atoi(text)
	if !is1 || err != nil {
		return nil, fmt.Errorf("%s does not answer as a Placement: max_version %q", base, doc.Versions[0].Max)
	}
	if minor < oldestVersion {
		return nil, ErrTooOld
	}
	minor = min(minor, newestVersion)
	c.version, c.hasTypes = fmt.Sprint("1.", minor), minor >= typesVersion
	return c, nil
}

// AnswerError is an answer with a status other than success.
type AnswerError struct {
	Method, Path string
	Status       int
	// Code and Detail are those of Placement's error.
	Code, Detail string
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s %s: status %d: %s", e.Method, e.Path, e.Status, strings.Join(strings.Fields(e.Detail), " "))
}

// answerOf gives the answer of an error; the zero AnswerError for other errors and nil.
func answerOf(err error) AnswerError {
	var e *AnswerError
	if errors.As(err, &e) {
		return *e
	}
	return AnswerError{}
}

func statusOf(err error) int { return answerOf(err).Status }

func codeOf(err error) string { return answerOf(err).Code }

func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// do sends a request and reads the answer's JSON; into may be nil.
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, text)
	if err != nil {
		return err
	}
	token, err := c.token(ctx)
	if err != nil {
		return fmt.Errorf("a token for Placement: %w", err)
	}
	req.Header.Set("X-Auth-Token", token)
	req.Header.Set("OpenStack-API-Version", "placement "+c.version)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the body was read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if len(answer) > maxAnswer {
		return fmt.Errorf("%s %s: the answer has more than %d bytes", method, path, maxAnswer)
	}
	if resp.StatusCode >= 300 {
		return answerError(method, path, resp.StatusCode, answer)
	}
	if cells := resp.Header.Values(placement.SilentHeader); len(cells) > 0 && method == http.MethodGet {
		return fmt.Errorf("%s %s: the answer lacks these cells, which do not answer: %s", method, path, strings.Join(cells, ", "))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s %s: the answer is not Placement's: %w", method, path, err)
	}
	return nil
}

func answerError(method, path string, status int, answer []byte) error {
	e := &AnswerError{Method: method, Path: path, Status: status, Detail: string(answer[:min(len(answer), 300)])}
	var body struct {
		Errors []struct{ Code, Detail string }
	}
	if json.Unmarshal(answer, &body) == nil && len(body.Errors) > 0 {
		e.Code, e.Detail = body.Errors[0].Code, body.Errors[0].Detail
	}
	return e
}

// provider is an entry of Placement's list of providers.
type provider struct {
	UUID       string `json:"uuid"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Parent     string `json:"parent_provider_uuid"`
	Root       string `json:"root_provider_uuid"`
}

// providers lists providers without their inventories, traits and aggregates: all, or those of a query.
func (c *Client) providers(ctx context.Context, query string) ([]provider, error) {
	var list struct {
		Of []provider `json:"resource_providers"`
	}
	err := c.get(ctx, "/resource_providers"+query, &list)
	return list.Of, err
}

// readTries bounds how often an object that changes meanwhile is read or copied.
const readTries = 5

// errChanging is the error of an object that changed each time that it was read or written.
var errChanging = errors.New("it changed during each attempt")

// provider reads a provider with its inventories, traits and aggregates, all of one generation; nil if there is none.
func (c *Client) provider(ctx context.Context, uuid string) (*placement.Provider, error) {
	for range readTries {
		list, err := c.providers(ctx, "?uuid="+url.QueryEscape(uuid))
		if err != nil || len(list) == 0 {
			return nil, err
		}
		p, err := c.contents(ctx, &list[0])
		if statusOf(err) == http.StatusNotFound {
			continue // deleted meanwhile
		}
		if err != nil || p != nil {
			return p, err
		}
	}
	return nil, fmt.Errorf("provider %s: %w", uuid, errChanging)
}

// contents reads a listed provider's inventories, traits and aggregates; nil if the provider has another generation
// by then.
func (c *Client) contents(ctx context.Context, of *provider) (*placement.Provider, error) {
	var inventories struct {
		Generation int64                          `json:"resource_provider_generation"`
		Of         map[string]placement.Inventory `json:"inventories"`
	}
	var traits struct {
		Generation int64    `json:"resource_provider_generation"`
		Of         []string `json:"traits"`
	}
	var aggregates struct {
		Generation int64    `json:"resource_provider_generation"`
		Of         []string `json:"aggregates"`
	}
	path := "/resource_providers/" + of.UUID
	for _, read := range []struct {
		path string
		into any
	}{{"/inventories", &inventories}, {"/traits", &traits}, {"/aggregates", &aggregates}} {
		if err := c.get(ctx, path+read.path, read.into); err != nil {
			return nil, err
		}
	}
	if inventories.Generation != of.Generation || traits.Generation != of.Generation || aggregates.Generation != of.Generation {
		return nil, nil
	}
	slices.Sort(traits.Of)
	slices.Sort(aggregates.Of)
	return &placement.Provider{
		UUID: of.UUID, Name: of.Name, RootUUID: of.Root, ParentUUID: of.Parent, Generation: of.Generation,
		Inventories: inventories.Of, Traits: traits.Of, Aggregates: aggregates.Of,
	}, nil
}

// holding is what consumers hold of one provider, by consumer uuid.
type holding map[string]struct {
	Resources  map[string]int64 `json:"resources"`
	Generation int64            `json:"consumer_generation"`
}

// holders reads what consumers hold of a provider; nil if there is no such provider.
func (c *Client) holders(ctx context.Context, provider string) (holding, error) {
	var list struct {
		Of holding `json:"allocations"`
	}
	err := c.get(ctx, "/resource_providers/"+provider+"/allocations", &list)
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	return list.Of, err
}

// consumer reads a consumer; nil if it holds nothing.
func (c *Client) consumer(ctx context.Context, uuid string) (*placement.Consumer, error) {
	var held struct {
		Of map[string]struct {
			Resources map[string]int64 `json:"resources"`
		} `json:"allocations"`
		Project    string `json:"project_id"`
		User       string `json:"user_id"`
		Generation int64  `json:"consumer_generation"`
		Type       string `json:"consumer_type"`
	}
	if err := c.get(ctx, "/allocations/"+uuid, &held); err != nil || len(held.Of) == 0 {
		return nil, err
	}
	out := &placement.Consumer{
		UUID: uuid, Generation: held.Generation, ProjectID: held.Project, UserID: held.User, Type: held.Type,
		Allocations: placement.Allocations{},
	}
	if !c.hasTypes {
		out.Type = placement.UnknownType
	}
	for id, a := range held.Of {
		out.Allocations[id] = a.Resources
	}
	return out, nil
}

const customPrefix = "CUSTOM_"

// names lists the custom names of a kind, sorted.
func (c *Client) names(ctx context.Context, kind placement.NameKind) ([]string, error) {
	var out []string
	if kind == placement.TraitName {
		var list struct {
			Of []string `json:"traits"`
		}
		if err := c.get(ctx, "/traits?name=startswith:"+customPrefix, &list); err != nil {
			return nil, err
		}
		out = list.Of
	} else {
		var list struct {
			Of []struct{ Name string } `json:"resource_classes"`
		}
		if err := c.get(ctx, "/resource_classes", &list); err != nil {
			return nil, err
		}
		for _, class := range list.Of {
			if strings.HasPrefix(class.Name, customPrefix) {
				out = append(out, class.Name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// StaticToken is a token that does not expire: "admin" of a Placement with auth_strategy noauth2.
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}
