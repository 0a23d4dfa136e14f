package hostprobe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

const diskGB = "DISK_GB"

// DiskUse is what a file system has available, and what the directories take that are named as instances,
// by uuid; all in bytes.
type DiskUse struct {
	Available   int64
	Directories map[string]int64
}

// Book is what is known of instances and claims on the host.
type Book struct {
	// Unknown: the instances on the host are unknown.
	Unknown bool
	// Claimed is the disk that claims take besides what instances have, in GB by instance.
	Claimed map[string]int64
	// ClaimsKnown: the cell has sent its set of claims.
	ClaimsKnown bool
}

// leftFor gives what of the disk instances can have: what is available, and what the directories take that
// the shard counts as theirs. An instance's counts up to the disk that it has by its claims; beyond that, as
// of a flavor without a root disk, it takes what nobody gave it. So does a directory of nobody's, left over
// or of another host's instance on a shared file system. Those are given, in order. While the instances or
// the claims are unknown, each directory counts as an instance's.
func (m *Machine) leftFor(instances []Instance, book Book) (left int64, nobodys []string) {
	if m.diskUse == nil {
		return 0, nil
	}
	has := maps.Clone(book.Claimed)
	if has == nil {
		has = map[string]int64{}
	}
	for _, i := range instances {
		has[i.UUID] += int64(i.Resources[diskGB])
	}
	left = m.diskUse.Available
	for _, uuid := range slices.Sorted(maps.Keys(m.diskUse.Directories)) {
		used := m.diskUse.Directories[uuid]
		gb, known := has[uuid]
		switch {
		case book.Unknown, !known && !book.ClaimsKnown:
			left += used
		case known:
			left += min(used, gb<<30)
		default:
			nobodys = append(nobodys, uuid)
		}
	}
	return left, nobodys
}

// reserveMeasured is what of a total, in GB, has to be reserved so that an inventory gives so much less as
// other files take: (total - reserved) * ratio is total * ratio - other, or just below.
func reserveMeasured(total, other int64, ratio float64) int64 {
	if other <= 0 || !(ratio > 0) {
		return 0
	}
	n := min(total, int64(min(math.Ceil(float64(other)/ratio), float64(total))))
	// Division rounds: the product is what claims are judged by.
	for n < total && float64(float64(total-n)*ratio) > float64(float64(total)*ratio)-float64(other) {
		n++
	}
	return n
}

// diskNotes warns of directories that may be counted otherwise than the operator means.
func diskNotes(path string, book Book, nobodys []string) []string {
	const most = 3
	switch n := len(nobodys); {
	case book.Unknown:
		return []string{"agent.host.reserve_used_disk without agent.host.instances_dir: each directory in " + path + " that is named by a uuid counts as an instance's, also one that is left over, of another host, or larger than its flavor: nothing of them is reserved (docs/how-to/agent.md)"}
	case n > 0:
		first := strings.Join(nobodys[:min(n, most)], ", ")
		if n > most {
			first += fmt.Sprintf(", %d more", n-most)
		}
		return []string{fmt.Sprintf("agent.host.reserve_used_disk: directories in %s of instances that neither agent.host.instances_dir nor a claim has: %s; what they take is reserved: remove what is left over", path, first)}
	}
	return nil
}
