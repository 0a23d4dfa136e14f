package security

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// tokenPrefix makes a leaked token easy to find.
const tokenPrefix = "cellgate_"

// tokenSum is the hash that is stored for a token. A token has 256 random bits, so a plain hash cannot
// be reversed, and the time to look up a hash reveals nothing useful.
type tokenSum [sha256.Size]byte

// tokens are the known tokens.
type tokens map[tokenSum]*Identity

// tokenLine is an entry of the tokens file.
type tokenLine struct {
	SHA256  string   `yaml:"sha256"`
	Role    Role     `yaml:"role"`
	Name    string   `yaml:"name"`
	Hosts   []string `yaml:"hosts,omitempty,flow"`
	Expires string   `yaml:"expires,omitempty"`
}

// NewToken makes a token for an identity. It returns the secret, and the line of the tokens file that
// makes it known.
func NewToken(id Identity) (secret, line string, err error) {
	if id.Name == "" {
		return "", "", errors.New("a token needs a name")
	}
	if bad := id.check(); bad != "" {
		return "", "", errors.New(bad)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(secret))
	var entry yaml.Node
	t := tokenLine{SHA256: hex.EncodeToString(sum[:]), Role: id.Role, Name: id.Name, Hosts: id.Hosts}
	if !id.Expires.IsZero() {
		t.Expires = id.Expires.UTC().Format(time.RFC3339)
	}
	if err := entry.Encode(t); err != nil {
		return "", "", err
	}
	entry.Style = yaml.FlowStyle
	text, err := yaml.Marshal([]*yaml.Node{&entry})
	// One line, however long.
	return secret, strings.Join(strings.Fields(string(text)), " ") + "\n", err
}

// parseTokens parses a tokens file, which is a YAML list.
func parseTokens(texts [][]byte) (*tokens, error) {
	var lines []tokenLine
	d := yaml.NewDecoder(bytes.NewReader(texts[0]))
	d.KnownFields(true)
	if err := d.Decode(&lines); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one YAML document")
	}
	all := tokens{}
	var errs []error
	for i, l := range lines {
		sum, id, err := l.read()
		if err == nil && all[sum] != nil {
			err = errors.New("the same token is there twice")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("token %d (%s): %w", i+1, quoted(l.Name), err))
			continue
		}
		all[sum] = id
	}
	return &all, errors.Join(errs...)
}

func (l tokenLine) read() (sum tokenSum, id *Identity, err error) {
	if n, err := hex.Decode(sum[:], []byte(l.SHA256[:min(len(l.SHA256), 2*len(sum))])); err != nil || n != len(sum) || len(l.SHA256) != 2*len(sum) {
		return sum, nil, errors.New("sha256 is not 64 hexadecimal digits")
	}
	id = &Identity{Role: l.Role, Name: l.Name, Hosts: l.Hosts}
	if l.Expires != "" {
		if id.Expires, err = time.Parse(time.RFC3339, l.Expires); err != nil {
			return sum, nil, errors.New("expires is not a time like 2027-01-31T00:00:00Z")
		}
	}
	if l.Name == "" {
		return sum, nil, errors.New("name must be set")
	}
	if bad := id.check(); bad != "" {
		return sum, nil, errors.New(bad)
	}
	return sum, id, nil
}

// parseSecret parses a file with one token, as its owner keeps it.
func parseSecret(texts [][]byte) (*string, error) {
	secret := strings.TrimSpace(string(texts[0]))
	if secret == "" || len(secret) > 4096 || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("it does not hold one token")
	}
	return &secret, nil
}
