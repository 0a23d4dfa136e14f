package agents

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// validate checks a FullState or a Delta as rpc.Validate does. The schema's rules take ten times as
// long as decoding the message, mostly for traits. So providers and instances that obviously keep the
// rules are skipped: when a whole cell reports at once, selections need the processors.
func validate(m proto.Message) error {
	return rpc.ValidateUnless(m, func(m protoreflect.Message, of protoreflect.Descriptor) bool {
		switch m := m.Interface().(type) {
		case *agentv1.FullState:
			switch of.Name() {
			case "providers":
				return len(m.GetProviders()) > 0 && isPlainProviders(m.GetProviders())
			case "instances":
				return isPlainInstances(m.GetInstances())
			}
		case *agentv1.Delta:
			switch of.Name() {
			case "providers":
				return isPlainProviders(m.GetProviders())
			case "instances":
				return isPlainInstances(m.GetInstances())
			}
		}
		return false
	})
}

// Limits of agent.proto, like maxProviders and maxInstances.
const (
	plainTraits      = 64 // more traits are compared by the schema's rules
	plainInventories = 64
	plainUsages      = 256
	plainText        = 255
	plainRatio       = 100_000
)

// isPlainMessage reports whether a heartbeat or a verdict plainly keeps the schema's rules.
func isPlainMessage(m *agentv1.ReportRequest) bool {
	if v := m.GetVerdict(); v != nil {
		return v.GetOutcome() == agentv1.Verdict_OK && v.GetReason() == agentv1.Verdict_REASON_UNSPECIFIED && v.GetDetail() == "" &&
			rpc.IsUUID(v.GetClaimId()) && rpc.IsUUID(v.GetBootId())
	}
	return m.GetHeartbeat() != nil && rpc.IsUUID(m.GetHeartbeat().GetBootId())
}

func isPlainProviders(of []*agentv1.Provider) bool {
	for _, p := range of {
		if !rpc.IsUUID(p.GetUuid()) || p.GetParentUuid() != "" && !rpc.IsUUID(p.GetParentUuid()) || len(p.GetName()) > plainText ||
			len(p.GetTraits()) > plainTraits || len(p.GetInventories()) > plainInventories {
			return false
		}
		for i, trait := range p.GetTraits() {
			if !isPlainName(trait) {
				return false
			}
			for _, before := range p.GetTraits()[:i] {
				if before == trait {
					return false
				}
			}
		}
		for _, i := range p.GetInventories() {
			if !isPlainInventory(i) {
				return false
			}
		}
	}
	return len(of) <= maxProviders
}

func isPlainInventory(i *agentv1.Inventory) bool {
	ratio := i.GetAllocationRatio()
	return isPlainName(i.GetResourceClass()) &&
		0 <= i.GetReserved() && i.GetReserved() <= i.GetTotal() &&
		0 < ratio && ratio <= plainRatio && float64(i.GetTotal()-i.GetReserved())*ratio <= shard.MaxAmount &&
		i.GetMinUnit() >= 0 && i.GetMaxUnit() >= 0 && i.GetStepSize() >= 0 && i.GetUnaccounted() >= 0 && i.GetFilled() >= 0
}

func isPlainInstances(of []*agentv1.Instance) bool {
	for _, i := range of {
		if !rpc.IsUUID(i.GetInstanceUuid()) || len(i.GetUsages()) > plainUsages || len(i.GetProjectId()) > plainText || len(i.GetUserId()) > plainText {
			return false
		}
		for _, u := range i.GetUsages() {
			if !rpc.IsUUID(u.GetProviderUuid()) || !isPlainName(u.GetResourceClass()) || u.GetAmount() < 1 {
				return false
			}
		}
	}
	return len(of) <= maxInstances
}

// isPlainName reports whether a text can be a trait or a resource class.
func isPlainName(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return 0 < len(text) && len(text) <= plainText
}
