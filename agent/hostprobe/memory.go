package hostprobe

import (
	"fmt"
	"strconv"
	"strings"
)

// parseMemTotal parses the line MemTotal, in KiB, of /proc/meminfo or of a NUMA node's meminfo, whose
// lines begin with "Node N".
func parseMemTotal(text string) (int64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] == "Node" {
			f = f[2:]
		}
		if len(f) == 0 || f[0] != "MemTotal:" {
			continue
		}
		if len(f) != 3 || f[2] != "kB" {
			return 0, fmt.Errorf("MemTotal is %.60q, not a number of kB", strings.TrimSpace(line))
		}
		return parseAmount(f[1])
	}
	return 0, fmt.Errorf("there is no MemTotal")
}

// maxAmount bounds the numbers that are read, so that sums and products do not overflow.
const maxAmount = 1 << 40

// parseAmount parses a decimal number from 0 to maxAmount.
func parseAmount(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 || n > maxAmount {
		return 0, fmt.Errorf("%.40q is no number between 0 and %d", strings.TrimSpace(text), int64(maxAmount))
	}
	return n, nil
}

// pages are the memory pages of one size.
type pages struct {
	sizeKB int64
	total  int64
}

// parsePageSize parses the name of a hugepages directory, "hugepages-2048kB".
func parsePageSize(name string) (kb int64, ok bool) {
	text, ok := strings.CutPrefix(name, "hugepages-")
	if !ok {
		return 0, false
	}
	if text, ok = strings.CutSuffix(text, "kB"); !ok {
		return 0, false
	}
	kb, err := parseAmount(text)
	return kb, err == nil && kb > 0
}
