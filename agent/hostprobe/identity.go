package hostprobe

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"cellgate/internal/rpc"
)

// IdentityConfig says where a host's identity is stored, and which host it must belong to.
type IdentityConfig struct {
	// Dir is the agent's directory. It contains the files compute_id, with the uuid; host.json, which
	// names the owner; and lock.
	Dir string
	// UUIDFile, if set, has the uuid instead of compute_id, and is only read.
	UUIDFile string
	// ServiceHost is the host's name.
	ServiceHost string
	// Machine is the machine's id from MachineID; "" is not compared.
	Machine string
}

// Identity is the uuid of the host. The process holds its lock until Close.
type Identity struct {
	UUID string
	// New: the uuid was just generated.
	New  bool
	lock *os.File
}

// owner is the content of host.json.
type owner struct {
	UUID        string `json:"uuid"`
	ServiceHost string `json:"service_host"`
	Machine     string `json:"machine,omitempty"`
}

// OpenIdentity locks the directory for this process and returns the host's uuid, which it generates if
// there is none. A directory that belongs to another host, or that another agent uses, is an error: two
// agents of one uuid would overwrite each other's reports.
func OpenIdentity(c IdentityConfig) (*Identity, error) {
	if err := os.MkdirAll(c.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("agent.host.state_dir: %w; name a directory that the agent may write", err)
	}
	lock, err := os.OpenFile(filepath.Join(c.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("agent.host.state_dir: %w; name a directory that the agent may write", err)
	}
	id, err := openLocked(c, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return id, nil
}

func openLocked(c IdentityConfig, lock *os.File) (*Identity, error) {
	switch free, err := lockFile(lock); {
	case err != nil:
		return nil, fmt.Errorf("agent.host.state_dir: locking %s: %w", lock.Name(), err)
	case !free:
		return nil, fmt.Errorf("agent.host.state_dir: another agent runs with %s; stop it, or name another directory for another host", c.Dir)
	}
	id, err := LookUpIdentity(c)
	if err != nil {
		return nil, err
	}
	id.lock = lock
	if id.New {
		if err := writeFile(filepath.Join(c.Dir, "compute_id"), []byte(id.UUID+"\n")); err != nil {
			return nil, fmt.Errorf("agent.host.state_dir: %w", err)
		}
	}
	file := filepath.Join(c.Dir, "host.json")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		text, err := json.Marshal(owner{UUID: id.UUID, ServiceHost: c.ServiceHost, Machine: c.Machine})
		if err == nil {
			err = writeFile(file, append(text, '\n'))
		}
		if err != nil {
			return nil, fmt.Errorf("agent.host.state_dir: %w", err)
		}
	}
	return id, nil
}

// LookUpIdentity returns the host's uuid, or a new one if there is none, without changing anything.
func LookUpIdentity(c IdentityConfig) (*Identity, error) {
	was, err := readOwner(filepath.Join(c.Dir, "host.json"))
	if err != nil {
		return nil, err
	}
	setting, file := "agent.host.state_dir", filepath.Join(c.Dir, "compute_id")
	if c.UUIDFile != "" {
		setting, file = "agent.host.uuid_file", c.UUIDFile
	}
	id := &Identity{}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.UUIDFile == "" && was == nil:
		return &Identity{UUID: uuid.NewString(), New: true}, nil
	case errors.Is(err, fs.ErrNotExist) && was != nil:
		return nil, fmt.Errorf("%s: %w, and this host was %s; put that uuid back into it", setting, err, was.UUID)
	case err != nil:
		return nil, fmt.Errorf("%s: the host's uuid cannot be read: %w", setting, err)
	}
	id.UUID = strings.ToLower(strings.TrimSpace(string(text)))
	if !rpc.IsUUID(id.UUID) {
		return nil, fmt.Errorf("%s: %s has %.60q, not the host's uuid", setting, file, text)
	}
	return id, was.mustBe(c, id.UUID, file)
}

// readOwner reads host.json; nil if there is none.
func readOwner(file string) (*owner, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("agent.host.state_dir: %w", err)
	}
	var o owner
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil || !rpc.IsUUID(o.UUID) || o.ServiceHost == "" {
		return nil, fmt.Errorf("agent.host.state_dir: %s says not whose directory this is (%w); remove it when this host is the owner", file, cmp.Or(err, errors.New("a field is missing")))
	}
	o.UUID = strings.ToLower(o.UUID)
	return &o, nil
}

// mustBe checks that the directory belongs to this host; a nil owner means that it belongs to no host
// yet.
func (o *owner) mustBe(c IdentityConfig, uuid, file string) error {
	const advice = "%s: %s is of host %s%s, not of %s: a copied directory would make two hosts one. Remove %s's files to make this a new host; remove host.json alone if it is the same one, under another name or installed again"
	switch {
	case o == nil:
	case o.ServiceHost != c.ServiceHost:
		return fmt.Errorf(advice, "agent.host.state_dir", c.Dir, o.ServiceHost, "", c.ServiceHost, c.Dir)
	case o.Machine != "" && c.Machine != "" && o.Machine != c.Machine:
		return fmt.Errorf(advice, "agent.host.state_dir", c.Dir, o.ServiceHost, " on another machine", "this one", c.Dir)
	case o.UUID != uuid:
		return fmt.Errorf("agent.host.state_dir: %s has the uuid %s, and this host was %s; put that uuid back into it", file, uuid, o.UUID)
	}
	return nil
}

// Close unlocks the directory.
func (i *Identity) Close() error { return i.lock.Close() }

// MachineID is a hash of /etc/machine-id, which must not be shown itself; "" if there is none.
func MachineID(files fs.FS) string {
	text, err := fs.ReadFile(files, "etc/machine-id")
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte("cellgate agent\n"), bytes.TrimSpace(text)...))
	return hex.EncodeToString(sum[:16])
}

// writeFile creates a file that is either complete or missing after a crash.
func writeFile(name string, text []byte) error {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
