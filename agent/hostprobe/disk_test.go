package hostprobe

import (
	"errors"
	"strings"
	"testing"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

const (
	mine  = "6f70656e-0000-4000-8000-0000000000a1"
	built = "6f70656e-0000-4000-8000-0000000000a2"
	left  = "6f70656e-0000-4000-8000-0000000000a3"
)

// usedDisk is a disk of 500 GB, with directories and besides GB of other data.
func usedDisk(besides int64, directories map[string]int64) func(string) (DiskUse, error) {
	use := DiskUse{Available: (500-besides)<<30 + 12345, Directories: map[string]int64{}}
	for uuid, gb := range directories {
		use.Available -= gb << 30
		use.Directories[uuid] = gb << 30
	}
	return func(string) (DiskUse, error) { return use, nil }
}

// Disk use other than the disks of instances and claims is reserved, or the configured amount if
// that is more. A directory of no instance counts as such use, once all instances are known.
func TestReservedOfADiskInUse(t *testing.T) {
	instance := func(gb int32) list {
		i := Instance{UUID: mine}
		if gb > 0 {
			i.Resources = map[string]int32{"DISK_GB": gb}
		}
		return list{i}
	}
	claimsKnown := Book{ClaimsKnown: true}
	for name, c := range map[string]struct {
		besides     int64
		directories map[string]int64
		instances   Instances
		book        Book
		mb          int
		ratio       float64
		want        int32
		note        string
	}{
		"nothing":                            {0, nil, list{}, claimsKnown, 0, 1, 0, ""},
		"other files":                        {30, nil, list{}, claimsKnown, 0, 1, 30, ""},
		"less than is configured":            {30, nil, list{}, claimsKnown, 40 << 10, 1, 40, ""},
		"all of it":                          {600, nil, list{}, claimsKnown, 0, 1, 500, ""},
		"an instance within its disk":        {30, map[string]int64{mine: 12}, instance(20), claimsKnown, 0, 1, 30, ""},
		"one that is larger":                 {30, map[string]int64{mine: 25}, instance(20), claimsKnown, 0, 1, 35, ""},
		"one of a flavor without a disk":     {30, map[string]int64{mine: 12}, instance(0), claimsKnown, 0, 1, 42, ""},
		"one that is being built":            {30, map[string]int64{built: 12}, list{}, Book{ClaimsKnown: true, Claimed: map[string]int64{built: 10}}, 0, 1, 32, ""},
		"one that is resized":                {30, map[string]int64{mine: 50}, instance(20), Book{ClaimsKnown: true, Claimed: map[string]int64{mine: 40}}, 0, 1, 30, ""},
		"one that is left over":              {30, map[string]int64{mine: 12, left: 7}, instance(20), claimsKnown, 0, 1, 37, "of instances that neither agent.host.instances_dir nor a claim has: " + left + "; what they take is reserved"},
		"it is not known yet":                {30, map[string]int64{mine: 12, left: 7}, instance(20), Book{}, 0, 1, 30, ""},
		"and never is":                       {30, map[string]int64{mine: 12, left: 7}, nil, claimsKnown, 0, 1, 30, "reserve_used_disk without agent.host.instances_dir"},
		"a ratio costs what is reserved":     {30, nil, list{}, claimsKnown, 0, 4, 8, ""},
		"but not what is configured":         {30, nil, list{}, claimsKnown, 40 << 10, 4, 40, ""},
		"below one it takes more":            {30, nil, list{}, claimsKnown, 0, 0.5, 60, ""},
		"not more than there is":             {300, nil, list{}, claimsKnown, 0, 0.5, 500, ""},
		"a ratio that divides nothing whole": {1, nil, list{}, claimsKnown, 0, 1.1, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := plain()
			s.ReserveUsedDisk, s.ReservedDiskMB, s.DiskRatio = true, c.mb, c.ratio
			r := reader(t, tree(t, "one-node"))
			r.Use = usedDisk(c.besides, c.directories)
			if c.besides > 500 {
				r.Use = func(string) (DiskUse, error) { return DiskUse{}, nil }
			}
			got, err := readWith(hostUUID, Config{Settings: s, Instances: c.instances}, r.Read, c.book)
			if err != nil {
				t.Fatal(err)
			}
			if is := amount(got.State, "DISK_GB").GetReserved(); is != c.want {
				t.Errorf("%d GB are reserved, want %d", is, c.want)
			}
			if notes := strings.Join(got.Notes, "; "); (notes == "") != (c.note == "") || !strings.Contains(notes, c.note) {
				t.Errorf("it notes %q, want %q", notes, c.note)
			}
		})
	}
}

// A probe considers claims of the cell and of operations on the host.
func TestAProbeCountsClaimsOnItsDisk(t *testing.T) {
	s := plain()
	s.ReserveUsedDisk = true
	r := reader(t, tree(t, "one-node"))
	r.Use = usedDisk(30, map[string]int64{built: 12})
	p, err := New(hostUUID, Config{Settings: s, Instances: list{}, Every: 1}, Deps{Read: r.Read})
	if err != nil {
		t.Fatal(err)
	}
	reserved := func() int32 {
		t.Helper()
		got, err := p.Read(p.cfg)
		if err != nil {
			t.Fatal(err)
		}
		return amount(got.State, "DISK_GB").GetReserved()
	}
	if is := reserved(); is != 30 {
		t.Errorf("%d GB are reserved before the claims are known, want 30", is)
	}
	_, err = p.Hosts()[0].Claims().InstanceClaim(&agentv1.InstanceClaimRequest{
		ClaimId: left, InstanceUuid: built, Usages: []*agentv1.Usage{{ProviderUuid: hostUUID, ResourceClass: "DISK_GB", Amount: 5}},
	})
	if is := reserved(); err != nil || is != 37 {
		t.Errorf("%d GB are reserved beside a claim of 5 whose directory takes 12, want 37, %v", is, err)
	}
}

func TestADiskWhoseUseIsNotKnown(t *testing.T) {
	s := plain()
	s.ReserveUsedDisk = true
	other := reader(t, tree(t, "one-node"))
	other.Use = func(string) (DiskUse, error) { return DiskUse{}, errNotInstancesPath }
	if _, err := Read(hostUUID, Config{Settings: s, Instances: list(nil)}, other.Read); err == nil || !strings.Contains(err.Error(), "agent.host.disk_path "+s.DiskPath+" is not Nova's instances_path") {
		t.Errorf("of another directory: %v", err)
	}
	r := reader(t, tree(t, "one-node"))
	r.Use = func(string) (DiskUse, error) { return DiskUse{}, errors.New("open: permission denied") }
	if _, err := r.Read(&s); err == nil || !strings.Contains(err.Error(), "agent.host.reserve_used_disk: open: permission denied") {
		t.Errorf("%v", err)
	}
}
