package hostprobe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

const diskGB = "DISK_GB"

// DiskUse is the available space of a file system, and the space used by the directories that are named
// like instances, by uuid; all in bytes.
type DiskUse struct {
	Available   int64
	Directories map[string]int64
}

// Book is what is known of the instances and claims on the host.
type Book struct {
	// Unknown: the instances on the host are unknown.
	Unknown bool
	// Claimed is the disk that claims take in addition to the instances, in GB by instance.
	Claimed map[string]int64
	// ClaimsKnown: the cell has sent its set of claims.
	ClaimsKnown bool
}

// leftFor returns how much of the disk instances can have, in bytes: the available space, and the space
// of directories that the shard counts as an instance's. A directory counts up to the disk of the
// instance's claims. Anything beyond, as with a flavor without a root disk, is other use. So is a
// directory of no known instance: a leftover, or another host's instance on a shared file system.
// leftFor also returns those, sorted. While the instances or the claims are unknown, each directory
// counts as an instance's in full.
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

// reserveMeasured returns how much of a total, in GB, must be reserved so that the inventory shrinks by
// the use of other files: (total - reserved) * ratio is total * ratio - other, or just below.
func reserveMeasured(total, other int64, ratio float64) int64 {
	if other <= 0 || !(ratio > 0) {
		return 0
	}
	n := min(total, int64(min(math.Ceil(float64(other)/ratio), float64(total))))
	// Division rounds, but claims are judged by the product.
	for n < total && float64(float64(total-n)*ratio) > float64(float64(total)*ratio)-float64(other) {
		n++
	}
	return n
}

// diskNotes warns of directories that may not be counted as the operator intends.
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
