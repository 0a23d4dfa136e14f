"""The virt driver of the hosts of the phase `hardware`: nova.virt.fake with two NUMA cells, dedicated CPUs, virtual functions
of a network card, and a GPU.
"""
from nova import objects
from nova.virt import fake
from oslo_serialization import jsonutils

CELLS = ({'shared': {0, 1}, 'dedicated': {2, 3, 4, 5}}, {'shared': {6, 7}, 'dedicated': {8, 9, 10, 11}})
VFS, VGPUS = 3, 2   # of a host
CELL_MB = 8192


class HardwareDriver(fake.FakeLiveMigrateDriver):
    vcpus = sum(len(c['shared']) for c in CELLS)
    memory_mb = CELL_MB * len(CELLS)
    local_gb = 1000

    def get_available_resource(self, nodename):
        status = super().get_available_resource(nodename)
        status['numa_topology'] = objects.NUMATopology(cells=[objects.NUMACell(
            id=i, cpuset=c['shared'], pcpuset=c['dedicated'], memory=CELL_MB, cpu_usage=0, memory_usage=0, pinned_cpus=set(),
            siblings=[{cpu} for cpu in sorted(c['shared'] | c['dedicated'])],
            mempages=[objects.NUMAPagesTopology(size_kb=4, total=CELL_MB * 256, used=0, reserved=0)],
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False), socket=i)
            for i, c in enumerate(CELLS)])._to_json()
        status['pci_passthrough_devices'] = jsonutils.dumps([
            {'address': '0000:81:00.%d' % n, 'vendor_id': '15b3', 'product_id': '1018' if n else '1017', 'status': 'available',
             'dev_type': 'type-VF' if n else 'type-PF', 'parent_addr': '0000:81:00.0' if n else None, 'numa_node': 0,
             'label': 'label_15b3_1018'}
            for n in range(VFS + 1)])
        return status

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        super().update_provider_tree(provider_tree, nodename, allocations=allocations)

        def inventory(total):
            return {'total': total, 'reserved': 0, 'min_unit': 1, 'max_unit': total, 'step_size': 1, 'allocation_ratio': 1.0}

        root = dict(provider_tree.data(nodename).inventory, PCPU=inventory(sum(len(c['dedicated']) for c in CELLS)))
        provider_tree.update_inventory(nodename, root)
        gpu = nodename + '_pci_0000_84_00_0'
        if not provider_tree.exists(gpu):
            provider_tree.new_child(name=gpu, parent=nodename)
        provider_tree.update_inventory(gpu, {'VGPU': inventory(VGPUS)})
