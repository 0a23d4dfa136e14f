// Package neutron finds the hosts that reach routed networks, as Nova's routed_networks_filter does:
// it asks Neutron for the segments of ports and networks, and Placement for the aggregates in which
// Neutron has put each segment's hosts.
package neutron
