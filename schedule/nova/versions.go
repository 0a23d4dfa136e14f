package nova

import (
	"fmt"
	"strconv"
	"strings"
)

// known is the newest supported minor version of each object; all have major version 1 (nova/objects/*.py, VERSION).
// Older minor versions only lack fields.
var known = map[string]int{
	"RequestSpec":          15,
	"Flavor":               2,
	"ImageMeta":            8,
	"ImageMetaProps":       43,
	"InstanceGroup":        11,
	"Destination":          4,
	"CellMapping":          1,
	"RequestLevelParams":   1,
	"RequestGroup":         3,
	"InstancePCIRequests":  1,
	"InstancePCIRequest":   4,
	"InstanceNUMATopology": 3,
	"InstanceNUMACell":     6,
	"SchedulerRetries":     1,
	"ComputeNodeList":      17,
	"ComputeNode":          19,
	"NetworkMetadata":      0,
	"NetworkRequestList":   1,
	"NetworkRequest":       3,
}

// versionProblem says why a version of an object is not supported; "" if it is.
func versionProblem(object, version string) string {
	newest := known[object]
	supported := fmt.Sprintf("%s 1.0 to 1.%d are supported", object, newest)
	if newest == 0 {
		supported = object + " 1.0 is supported"
	}
	major, minor, ok := strings.Cut(version, ".")
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)
	switch {
	case !ok || errA != nil || errB != nil:
		return fmt.Sprintf("%q is not a version of the form MAJOR.MINOR; %s", version, supported)
	case a != 1 || b > uint64(newest):
		return fmt.Sprintf("unknown version %s; %s", version, supported)
	}
	return ""
}
