package placement

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// version is a microversion 1.N, by its N.
type version int

const (
	minVersion version = 0
	maxVersion version = 39

	versionHeader = "OpenStack-API-Version"
	serviceType   = "placement"
)

func (v version) String() string { return "1." + strconv.Itoa(int(v)) }

// versionOf reads the microversion that a request asks for: 1.0 when it names none for Placement.
func versionOf(h http.Header) (version, error) {
	wanted := ""
	values := strings.Split(strings.Join(h.Values(versionHeader), ","), ",")
	for i := len(values) - 1; i >= 0 && wanted == ""; i-- {
		if service, v, ok := strings.Cut(strings.TrimSpace(values[i]), " "); ok && strings.EqualFold(service, serviceType) {
			wanted = strings.TrimSpace(v)
		}
	}
	switch wanted {
	case "":
		return minVersion, nil
	case "latest":
		return maxVersion, nil
	}
	major, minor, dotted := strings.Cut(wanted, ".")
	a, errA := strconv.Atoi(strings.TrimSpace(major))
	b, errB := strconv.Atoi(strings.TrimSpace(minor))
	if !dotted || errA != nil || errB != nil {
		return 0, &apiError{status: http.StatusBadRequest, detail: fmt.Sprintf("Invalid microversion: invalid version string: %s", wanted)}
	}
	if a != 1 || b < int(minVersion) || b > int(maxVersion) {
		return 0, &apiError{status: http.StatusNotAcceptable, detail: "Invalid microversion: Unacceptable version header: " + wanted, versions: true}
	}
	return version(b), nil
}
