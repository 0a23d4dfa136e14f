package agent

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// canonical is an id as its cell has it: a uuid in lower case, anything else as it is.
func canonical(id string) string {
	if rpc.IsUUID(id) {
		return strings.ToLower(id)
	}
	return id
}

// canonicalUsages gives usages whose providers are canonical; the ones given stay as they are.
func canonicalUsages(usages []*agentv1.Usage) []*agentv1.Usage {
	out := make([]*agentv1.Usage, len(usages))
	for i, u := range usages {
		out[i] = proto.CloneOf(u)
		out[i].ProviderUuid = canonical(u.GetProviderUuid())
	}
	return out
}
