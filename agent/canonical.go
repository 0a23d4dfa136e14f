package agent

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// canonical returns an id in the cell's form: a uuid in lower case, any other id unchanged.
func canonical(id string) string {
	if rpc.IsUUID(id) {
		return strings.ToLower(id)
	}
	return id
}

// canonicalUsages gives copies of usages with canonical providers.
func canonicalUsages(usages []*agentv1.Usage) []*agentv1.Usage {
	out := make([]*agentv1.Usage, len(usages))
	for i, u := range usages {
		out[i] = proto.CloneOf(u)
		out[i].ProviderUuid = canonical(u.GetProviderUuid())
	}
	return out
}
