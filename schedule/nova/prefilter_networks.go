package nova

import "fmt"

// requestedNetworks reads the NetworkRequestList. The words auto and none in the place
// of a network's id name no network.
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
			s.NetworkFields = append(s.NetworkFields, o.at("port_id"))
		case network != "" && network != "auto" && network != "none":
			s.NetworkFields = append(s.NetworkFields, o.at("network_id"))
		}
		// What a port needs of a host is in pci_requests and requested_resources.
		o.known("address", "pci_request_id", "tag", "arq_uuid", "device_profile")
		o.rest()
	}
	list.rest()
}

// routedNetworks (routed_networks_filter): Nova asks Neutron for the segments of each
// port and network, and Placement for their aggregates. Neither is asked here, so a
// request that names one is refused while the option is on.
func (p *prefiltering) routedNetworks() {
	if !p.options.RoutedNetworks {
		return
	}
	for _, path := range p.spec.NetworkFields {
		p.invalid(path, "not supported while query_placement_for_routed_network_aggregates is on: "+
			"the hosts that reach its segment are known to Neutron, which is not asked")
	}
}

// remoteManagedPorts (remote_managed_ports_filter): a port of the vnic type
// remote-managed needs a host that has such ports. Nova asks Neutron for the type; its
// API has asked already, and made a PCI request of the port that says so
// (nova/network/neutron.py, create_resource_requests).
func (p *prefiltering) remoteManagedPorts() {
	for i := range p.spec.PCI {
		if p.spec.PCI[i].AsksRemoteManaged() {
			p.requireRoot(p.spec.Path+".pci_requests", "COMPUTE_REMOTE_MANAGED_PORTS")
			return
		}
	}
}

// pciInPlacement (RequestSpec.generate_request_groups_from_pci_requests): Nova asks
// Placement for a group of each device that an alias asks for. What hosts have of them
// is not known by resource class, so such a request is refused while the option is on.
func (p *prefiltering) pciInPlacement() {
	if !p.options.PCIInPlacement {
		return
	}
	for _, path := range p.spec.AliasFields {
		p.invalid(path, "not supported while pci_in_placement is on: devices that Placement has as child providers are not known")
	}
}
