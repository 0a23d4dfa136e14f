"""Draws hosts with NUMA nodes and PCI devices and requests for them, and writes what
Nova says of each: a case of hardware_golden_test.go a line.

usage: hardware_cases.py COUNT SEED
       hardware_cases.py FOLDER < cases > {"steps"} of each, as the newest release
       says them (newest_nova.py)"""
import json
import logging
import random
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

if len(sys.argv) == 2:
    import newest_nova
    newest_nova.load(sys.argv[1])

from nova import objects  # noqa: E402
from nova.objects import fields  # noqa: E402
from nova.objects import pci_device_pool  # noqa: E402
from nova.pci import stats as pci_stats  # noqa: E402
from nova.scheduler import host_manager  # noqa: E402
from nova.scheduler.filters import numa_topology_filter  # noqa: E402
from nova.scheduler.filters import pci_passthrough_filter  # noqa: E402
import nova.conf  # noqa: E402

objects.register_all()
nova.conf.CONF([], default_config_files=[], default_config_dirs=[])
DRAWN = len(sys.argv) == 3
COUNT, SEED = (int(sys.argv[1]), int(sys.argv[2])) if DRAWN else (0, 0)
R = random.Random(SEED)
pick = R.choice
NETS = ["a", "b"]


def networks(likely):
    if R.random() > likely:
        return None
    return objects.NetworkMetadata(
        physnets=set(n for n in NETS if R.random() < .5),
        tunneled=R.random() < .4)


def pages(memory_mb):
    sizes = [(4, memory_mb * 256)]
    if R.random() < .6:
        sizes.append((2048, memory_mb // 4))
    if R.random() < .4:
        sizes.append((1048576, memory_mb // 2048))
    return [objects.NUMAPagesTopology(
        size_kb=size, total=total, reserved=pick([0, 0, 0, 1]),
        used=pick([0, 0, 0, total // 2, total])) for size, total in sizes]


def host_topology():
    if R.random() < .05:
        return None
    cells, cpu = [], 0
    threads = pick([1, 2, 2, 2, 4])
    separate = R.random() < .4
    for i in range(pick([1, 1, 2, 2, 2, 3, 4])):
        cores = R.randint(1, 6)
        cpus = list(range(cpu, cpu + cores * threads))
        cpu += len(cpus)
        shared = dedicated = set(cpus)
        if separate:
            half = set(cpus[:len(cpus) // 2 // threads * threads])
            shared, dedicated = pick([(half, set(cpus) - half), (set(cpus),
                                      set()), (set(), set(cpus))])
        memory = pick([2048, 4096, 8192])
        siblings = [] if threads == 1 else [
            set(cpus[k:k + threads]) for k in range(0, len(cpus), threads)]
        cell = objects.NUMACell(
            id=i, cpuset=shared, pcpuset=dedicated, memory=memory,
            cpu_usage=R.randint(0, 2),
            memory_usage=pick([0, 0, 0, 512, memory]),
            pinned_cpus=set(c for c in dedicated if R.random() < .15),
            siblings=siblings, mempages=pages(memory),
            socket=i if R.random() < .5 else i // 2)
        net = networks(.5)
        if net:
            cell.network_metadata = net
        cells.append(cell)
    return objects.NUMATopology(cells=cells)


def pools():
    if R.random() < .1:
        return None
    out = []
    for _ in range(R.randint(0, 4)):
        tags = {"dev_type": pick(["type-PCI", "type-PF", "type-VF", "vdpa"])}
        if R.random() < .5:
            tags["physical_network"] = pick(["a", "A", "b", "B"])
        if R.random() < .3:
            tags["remote_managed"] = pick(["true", "false"])
        out.append(objects.PciDevicePool(
            product_id=pick("12"), vendor_id=pick(["8086", "15b3", "15B3"]),
            numa_node=pick([None, 0, 0, 1, 2]), tags=tags,
            count=R.randint(0, 4)))
    return objects.PciDevicePoolList(objects=out)


def guest_topology():
    if R.random() < .2:
        return None
    policy = pick([None, "shared", "dedicated", "dedicated", "mixed"])
    threads = None
    if policy in ("dedicated", "mixed") and R.random() < .6:
        threads = pick(["prefer", "isolate", "require"])
    size = pick([None, None, None, -1, -2, -3, 4, 64, 2048, 1048576])
    cells, cpu = [], 0
    for i in range(pick([1, 1, 1, 2, 2, 3])):
        cpus = set(range(cpu, cpu + R.randint(1, 5)))
        cpu += len(cpus)
        dedicated = set()
        if policy == "dedicated":
            dedicated = cpus
        elif policy == "mixed":
            dedicated = set(c for c in cpus if R.random() < .5)
        cells.append(objects.InstanceNUMACell(
            id=i, cpuset=cpus - dedicated, pcpuset=dedicated,
            memory=pick([256, 512, 1024, 2048]), pagesize=size,
            cpu_policy=policy, cpu_thread_policy=threads))
    return objects.InstanceNUMATopology(
        cells=cells, emulator_threads_policy=pick([None, "share", "isolate"]))


def pci_request():
    specs = []
    for _ in range(pick([1, 1, 2])):
        spec = {}
        if R.random() < .4:
            spec["product_id"] = pick("12")
        if R.random() < .4:
            spec["vendor_id"] = pick(["8086", "15b3"])
        if R.random() < .4:
            spec["dev_type"] = pick(["type-PCI", "type-PF", "type-VF", "vdpa"])
        if R.random() < .3:
            spec["physical_network"] = pick(["A", "b", None])
        if R.random() < .4:
            spec["remote_managed"] = pick(["True", "False"])
        specs.append(spec)
    return objects.InstancePCIRequest(
        count=pick([1, 1, 2, 3]), spec=specs, alias_name="x",
        numa_policy=pick([None] + list(fields.PCINUMAAffinityPolicy.ALL)))


def extra_specs(numa):
    out = {}
    if numa and numa.cells[0].cpu_policy:
        out["hw:cpu_policy"] = numa.cells[0].cpu_policy
        if numa.cells[0].cpu_thread_policy:
            out["hw:cpu_thread_policy"] = numa.cells[0].cpu_thread_policy
    elif R.random() < .1:
        out = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}
    return out


def spec_of(case):
    r = case["request"]

    def read(cls, key):
        return cls.obj_from_primitive(r[key]) if r[key] else None
    spec = objects.RequestSpec(
        flavor=objects.Flavor(
            vcpus=1, memory_mb=1, root_gb=0, ephemeral_gb=0, swap=0,
            extra_specs=case["extra_specs"]),
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        instance_uuid="c1000000-0000-4000-8000-000000000001",
        numa_topology=read(objects.InstanceNUMATopology, "numa_topology"),
        pci_requests=read(objects.InstancePCIRequests, "pci_requests"))
    if r["network_metadata"]:
        spec.network_metadata = read(objects.NetworkMetadata,
                                     "network_metadata")
    return spec


def steps(case):
    state = host_manager.HostState("h", "n", None)
    state.free_ram_mb = state.free_disk_mb = 0
    state.cpu_allocation_ratio = case["cpu_allocation_ratio"]
    state.ram_allocation_ratio = case["ram_allocation_ratio"]
    if case["numa_topology"]:
        state.numa_topology = objects.NUMATopology.obj_from_db_obj(
            case["numa_topology"])
    pools = None
    if case["pci_stats"]:
        pools = json.loads(case["pci_stats"])
        if isinstance(pools, list):  # As old computes wrote it.
            pools = pci_device_pool.from_pci_stats(pools)
        else:
            pools = objects.PciDevicePoolList.obj_from_primitive(pools)
    state.pci_stats = pci_stats.PciDeviceStats(state.numa_topology, pools)
    out = []
    for _ in range(4):
        step = {"numa": False}
        state.limits = {}
        # What Placement offers, which the newest release's filters narrow.
        state.allocation_candidates = [{"allocations": {}, "mappings": {}}]
        try:
            step["numa"] = bool(
                numa_topology_filter.NUMATopologyFilter().host_passes(
                    state, spec_of(case)))
        except Exception as e:
            step["raises"] = type(e).__name__
        state.allocation_candidates = [{"allocations": {}, "mappings": {}}]
        step["pci"] = bool(
            pci_passthrough_filter.PciPassthroughFilter().host_passes(
                state, spec_of(case)))
        out.append(step)
        if not step["numa"] or not step["pci"]:
            break
        state.consume_from_request(spec_of(case))
        step["io_ops"] = state.num_io_ops
        step["devices"] = sum(p["count"] for p in state.pci_stats.pools)
    return out


def primitive(obj):
    return obj.obj_to_primitive() if obj else None


if not DRAWN:
    for line in sys.stdin:
        print(json.dumps({"steps": steps(json.loads(line))}, separators=(",", ":")), flush=True)
for _ in range(COUNT):
    host, devices, numa = host_topology(), pools(), guest_topology()
    asked = [pci_request() for _ in range(pick([0, 0, 0, 1, 1, 2]))]
    case = {
        "numa_topology": host._to_json() if host else None,
        "pci_stats": json.dumps(primitive(devices)) if devices else None,
        "cpu_allocation_ratio": pick([1.0, 1.5, 16.0]),
        "ram_allocation_ratio": pick([1.0, 1.0, 1.5]),
        "request": {
            "numa_topology": primitive(numa),
            "pci_requests": primitive(
                objects.InstancePCIRequests(requests=asked)),
            "network_metadata": primitive(networks(.3)),
        },
        "extra_specs": extra_specs(numa),
    }
    # As a database and a message have it: sets are lists.
    case = json.loads(json.dumps(case, default=list))
    case["steps"] = steps(case)
    print(json.dumps(case, separators=(",", ":")), flush=True)
