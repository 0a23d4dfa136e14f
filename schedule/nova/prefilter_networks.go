package nova

import "fmt"

// RequestedNetwork is a port, or else a network, that a request names. Path is the path of its field.
type RequestedNetwork struct{ Path, Port, Network string }

// RequestedNetworks are the ports and networks of a RequestSpec, for routed_networks_filter. On a rebuild there are
// none.
func RequestedNetworks(primitive map[string]any) []RequestedNetwork {
	var s Spec
	f := findings{options: new(Options)}
	o := f.object(root, primitive, "RequestSpec")
	if o == nil {
		return nil
	}
	s.hints(o)
	s.requestedNetworks(o)
	if s.Rebuild() {
		return nil
	}
	return s.Requested
}

// requestedNetworks reads the NetworkRequestList. A network_id of auto or none names no network.
func (s *Spec) requestedNetworks(spec *object) {
	list := spec.child("requested_networks", "NetworkRequestList")
	for i, e := range list.list("objects") {
		o := spec.object(fmt.Sprintf("%s[%d]", list.at("objects"), i), e, "NetworkRequest")
		if o == nil {
			continue
		}
		port, network := o.text("port_id"), o.text("network_id")
		switch {
		case port != "":
			s.Requested = append(s.Requested, RequestedNetwork{Path: o.at("port_id"), Port: port})
		case network != "" && network != "auto" && network != "none":
			s.Requested = append(s.Requested, RequestedNetwork{Path: o.at("network_id"), Network: network})
		}
		// What a port requires of a host is in pci_requests and requested_resources.
		o.known("address", "pci_request_id", "tag", "arq_uuid", "device_profile")
		o.rest()
	}
	list.rest()
}

// routedNetworks (routed_networks_filter): a host must be in an aggregate of the segments of each port and network.
// If Neutron was not asked, a request that names one is refused.
func (p *prefiltering) routedNetworks() {
	if !p.options.RoutedNetworks {
		return
	}
	if p.options.Segments != nil {
		p.request.MemberOf = append(p.request.MemberOf, p.memberOf(p.spec.Path+".requested_networks", p.options.Segments)...)
		return
	}
	for _, n := range p.spec.Requested {
		p.invalid(n.Path, "not supported while query_placement_for_routed_network_aggregates is on and nova.conf has no account in [neutron]: "+
			"the hosts that reach its segment are known to Neutron, which is not asked")
	}
}

// remoteManagedPorts (remote_managed_ports_filter): a port of the vnic type remote-managed needs a host with such
// ports. Nova asks Neutron for the type. Its API has already done so, and made a PCI request that has it
// (nova/network/neutron.py, create_resource_requests).
func (p *prefiltering) remoteManagedPorts() {
	for i := range p.spec.PCI {
		if p.spec.PCI[i].AsksRemoteManaged() {
			p.requireRoot(p.spec.Path+".pci_requests", "COMPUTE_REMOTE_MANAGED_PORTS")
			return
		}
	}
}
