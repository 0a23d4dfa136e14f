package gateway

import (
	"google.golang.org/protobuf/proto"

	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Less than scheduler.proto and request_spec.proto allow of each, but more than
// usual requests have.
const (
	plainInstances = 8
	plainItems     = 64
	plainName      = 255
	plainImageID   = 64
	plainValue     = 4096
	plainMembers   = 1024
	plainTTL       = 3600
)

// keepsSchema reports whether a request certainly keeps the rules of the schema and is not
// too large; false says nothing.
func keepsSchema(req any) bool {
	m, ok := req.(*cellgatev1.SelectDestinationsRequest)
	if !ok || !plainText(m.GetRequestId()) || !plainOperation(m.GetOperation()) || !plainUUIDs(m.GetInstanceUuids(), plainInstances) ||
		len(m.GetInstanceUuids()) == 0 || m.GetMaxAlternates() < 0 || m.GetMaxAlternates() > 32 {
		return false
	}
	for i, id := range m.GetInstanceUuids() {
		for _, other := range m.GetInstanceUuids()[:i] {
			if id == other {
				return false
			}
		}
	}
	if ttl := m.GetClaimTtl(); ttl != nil && (ttl.GetSeconds() < 1 || ttl.GetSeconds() >= plainTTL && (ttl.GetSeconds() > plainTTL || ttl.GetNanos() != 0) ||
		ttl.GetNanos() < 0 || ttl.GetNanos() > 999_999_999) {
		return false
	}
	switch spec := m.GetSpec().(type) {
	case *cellgatev1.SelectDestinationsRequest_RequestSpec:
		return plainSpec(spec.RequestSpec) && proto.Size(m) <= rpc.MaxMessageBytes
	case *cellgatev1.SelectDestinationsRequest_NovaRequestSpec:
		// The schema has no rules for what is in it.
		return spec.NovaRequestSpec != nil && proto.Size(m) <= rpc.MaxMessageBytes
	}
	return false
}

func plainOperation(o cellgatev1.Operation) bool {
	return o >= cellgatev1.Operation_OPERATION_UNSPECIFIED && o <= cellgatev1.Operation_REBUILD
}

// plainSpec is plain for needs that name no hosts, aggregates or hints, and bring no
// expressions.
func plainSpec(s *cellgatev1.RequestSpec) bool {
	if s == nil || len(s.GetResources()) > plainItems || len(s.GetAnyTraits()) > 0 || len(s.GetMemberOf()) > 0 ||
		len(s.GetForbiddenAggregates()) > 0 || len(s.GetIgnoreHosts()) > 0 || len(s.GetForceHosts()) > 0 || len(s.GetForceNodes()) > 0 ||
		s.GetRequestedDestination() != nil || len(s.GetSchedulerHints()) > 0 ||
		s.GetFilterExpression() != "" || s.GetWeighExpression() != "" || s.WeighMultiplier != nil {
		return false
	}
	for class, n := range s.GetResources() {
		if !plainWord(class) || n < 0 {
			return false
		}
	}
	switch s.GetStrategy() {
	case "", "spread", "pack", "balanced", "nova":
	default:
		return false
	}
	return plainWords(s.GetRequiredTraits()) && plainWords(s.GetForbiddenTraits()) && plainText(s.GetAvailabilityZone()) &&
		plainText(s.GetProjectId()) && plainText(s.GetUserId()) && plainFlavor(s.GetFlavor()) && plainImage(s.GetImage()) &&
		plainGroup(s.GetInstanceGroup())
}

func plainFlavor(f *cellgatev1.Flavor) bool {
	return plainText(f.GetName()) && f.GetVcpus() >= 0 && f.GetMemoryMb() >= 0 && f.GetRootGb() >= 0 && f.GetEphemeralGb() >= 0 &&
		f.GetSwapMb() >= 0 && plainPairs(f.GetExtraSpecs())
}

func plainImage(i *cellgatev1.Image) bool {
	return len(i.GetId()) <= plainImageID && len(i.GetDiskFormat()) <= plainImageID && plainPairs(i.GetProperties())
}

func plainGroup(g *cellgatev1.InstanceGroup) bool {
	if g == nil {
		return true
	}
	switch g.GetPolicy() {
	case "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity":
	default:
		return false
	}
	return rpc.IsUUID(g.GetUuid()) && g.GetMaxServerPerHost() >= 0 && plainUUIDs(g.GetMembers(), plainMembers) && len(g.GetHosts()) == 0
}

func plainPairs(pairs map[string]string) bool {
	if len(pairs) > plainItems {
		return false
	}
	for key, value := range pairs {
		if !plainText(key) || len(value) > plainValue {
			return false
		}
	}
	return true
}

// plainText: as many bytes, so no more characters.
func plainText(text string) bool { return len(text) <= plainName }

func plainUUIDs(texts []string, most int) bool {
	if len(texts) > most {
		return false
	}
	for _, text := range texts {
		if !rpc.IsUUID(text) {
			return false
		}
	}
	return true
}

func plainWords(texts []string) bool {
	if len(texts) > plainItems {
		return false
	}
	for _, text := range texts {
		if !plainWord(text) {
			return false
		}
	}
	return true
}

// plainWord is the schema's pattern of resource classes and traits.
func plainWord(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return text != "" && plainText(text)
}
