"""Times Nova's default filters and weighers over made-up hosts, nothing else: no
database, no Placement. usage: nova_time.py HOSTS..."""
import json
import statistics
import sys
import time

import nova_answers  # noqa: F401  (sets Nova up)
from nova_answers import CTX, FILTERS, WEIGHERS, compute_node, service
from nova import objects
from nova.scheduler import filters
from nova.scheduler import host_manager
from nova.scheduler import weights

DEFAULTS = ["ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter",
            "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"]


def states(n):
    out = []
    for i in range(n):
        name = "host-%05d" % i
        node = compute_node({
            "uuid": "aaaaaaaa-0000-4000-8000-%012d" % i, "host": name, "hypervisor_hostname": name,
            "vcpus": 64, "vcpus_used": i * 7 % 64, "memory_mb": 262144, "memory_mb_used": 0,
            "free_ram_mb": 262144 - i * 512 % 200000, "local_gb": 4000, "local_gb_used": i % 3000,
            "free_disk_gb": 4000 - i % 3000, "cpu_allocation_ratio": 4.0,
            "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 1.0, "hypervisor_type": "QEMU",
            "hypervisor_version": 6002000,
            "supported_instances": '[["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]',
            "cpu_info": '{"arch": "x86_64", "model": "Icelake-Server", "features": ["avx", "vmx"]}',
            "stats": json.dumps({"num_instances": str(i % 60), "io_workload": str(i % 4)}),
            "metrics": "[]"}, i)
        s = host_manager.HostState(name, name, "cell")
        s.update(node, dict(service({"host": name, "binary": "nova-compute", "last_seen_up":
                                     time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())}, i)), [], {})
        out.append(s)
    return out


def spec():
    return objects.RequestSpec(
        CTX, instance_uuid="cccccccc-0000-4000-8000-000000000001", instance_group=None, project_id="p",
        flavor=objects.Flavor(name="m1", vcpus=2, memory_mb=4096, root_gb=20, ephemeral_gb=0, swap=0,
                              extra_specs={"capabilities:cpu_info:arch": "x86_64"}),
        image=objects.ImageMeta(properties=objects.ImageMetaProps(hw_architecture="x86_64", hw_vm_mode="hvm")),
        scheduler_hints={}, ignore_hosts=None, force_hosts=None, force_nodes=None, requested_destination=None)


for n in map(int, sys.argv[1:]):
    m = host_manager.HostManager.__new__(host_manager.HostManager)
    m.filter_handler = filters.HostFilterHandler()
    m.enabled_filters = [FILTERS[f]() for f in DEFAULTS]
    m.weight_handler = weights.HostWeightHandler()
    m.weighers = [w() for w in WEIGHERS.values()]
    hosts, request, took = states(n), spec(), []
    for _ in range(7):
        start = time.process_time()
        passed = list(m.get_filtered_hosts(hosts, request, 0))
        weighed = m.get_weighed_hosts(passed, request)
        took.append(time.process_time() - start)
    print("%d hosts: %d passed, %.1f ms of CPU (median of %d, least %.1f)" % (
        n, len(weighed), statistics.median(took) * 1e3, len(took), min(took) * 1e3))
