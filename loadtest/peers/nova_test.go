package peers

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
)

// filterTime is what Nova's filters and weighers take.
type filterTime struct {
	Hosts int `json:"hosts"`
	// Milliseconds of CPU time a selection: the median of seven.
	Milliseconds float64 `json:"milliseconds"`
}

// timeFilters runs Nova's default filters and weighers once for each number of hosts.
func timeFilters(ctx context.Context, hosts []int) (all []filterTime, err error) {
	args := []string{"-W", "ignore", "../../schedule/nova/testdata/nova_time.py"}
	for _, n := range hosts {
		args = append(args, strconv.Itoa(n))
	}
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", args...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("nova_time.py: %w: %s", err, failure.String())
	}
	for line := range bytes.Lines(out) {
		var f filterTime
		var passed int
		if _, err := fmt.Sscanf(string(line), "%d hosts: %d passed, %f ms", &f.Hosts, &passed, &f.Milliseconds); err != nil {
			return nil, fmt.Errorf("nova_time.py printed %q: %w", line, err)
		}
		if passed == 0 {
			return nil, fmt.Errorf("nova_time.py: none of %d hosts passed", f.Hosts)
		}
		all = append(all, f)
	}
	if len(all) != len(hosts) {
		return nil, fmt.Errorf("nova_time.py printed %d lines for %d fleets", len(all), len(hosts))
	}
	return all, nil
}
