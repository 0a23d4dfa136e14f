// Package hardware knows the NUMA cells and PCI devices of a host as Nova reports them, whether a guest's topology and
// devices fit there, and what is left once they are taken (nova/virt/hardware.py, nova/pci/stats.py).
//
// A Host is what is free. A Search asks about one host after the other, as filters do. Assign and Without say what an
// instance takes and what is left then, for claims; Consume does the same as Nova does between the instances of one
// request. The tests of package schedule compare all of it with naive rules, through the filters.
package hardware
