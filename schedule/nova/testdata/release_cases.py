"""Draws cases for the filters and weighers of nova-releases.json: each is one of the
bundled ones, made smaller, with hosts that have about what is asked for, ratios,
instances of flavors and images, and hosts that were tried.

usage: release_cases.py GOLDEN.jsonl.gz COUNT SEED"""
import copy
import gzip
import json
import os
import random
import sys

with gzip.open(sys.argv[1], "rt") as f:
    base = [json.loads(line) for line in f]
with open(os.path.join(os.path.dirname(__file__), "nova-releases.json")) as f:
    INDEX = json.load(f)
COUNT, SEED = int(sys.argv[2]), int(sys.argv[3])
R = random.Random(SEED)
pick = R.choice

FILTERS = sorted(INDEX["filters"])
WEIGHERS = sorted(INDEX["weighers"])
# Beyond 1e100 and not finite is a difference on purpose.
NUMBERS = ["0", "1", "1.0", "0.5", "1.5", "16", "16.0", "-1", "1e3", "1_0", " 2 ", "+3", ".5", "7.", "٤"]
WORDS = ["", "abc", "1,5", "0x10", "None", "1 0"]
FLAVORS = [3, 5, 7]
PROPERTIES = {
    "os_distro": ["ubuntu", "debian", "windows", ""],
    "os_type": ["linux", "windows"],
    "hw_disk_bus": ["virtio", "scsi"],
    "hw_machine_type": ["pc", "q35", "PC"],
    "hw_cpu_cores": ["0", "1", "2", " 2", "02"],
    "hw_video_ram": ["0", "64"],
    "hw_qemu_guest_agent": ["yes", "no", "True", "False", "1", "t", "x"],
    "hw_boot_menu": ["true", "off"],
    "os_require_quiesce": ["yes", "no"],
    "hw_vif_multiqueue_enabled": ["true", "false"],
    "os_version": ["8", "8.0"],
    "img_owner_id": ["abc", "ABC"],
    "no_such_property": ["x"],
}
# What an instance's system metadata has besides its image's properties.
BESIDES = {
    "image_min_ram": "0", "image_min_disk": "1", "image_disk_format": "qcow2",
    "image_container_format": "bare", "image_base_image_ref": "b1000000-0000-4000-8000-000000000001",
    "owner_user_name": "u", "boot_roles": "member",
}


def data(o):
    return o["nova_object.data"]


def spec(c):
    return data(c["request_spec"])


def flavor(c):
    return data(spec(c)["flavor"])


def wrap(name, version, d):
    return {"nova_object.name": name, "nova_object.namespace": "nova",
            "nova_object.version": version, "nova_object.data": d}


def typed(text, key):
    """A property as ImageMetaProps has it."""
    if key in ("hw_cpu_cores", "hw_video_ram"):
        return int(text)
    if key in ("hw_qemu_guest_agent", "hw_boot_menu", "os_require_quiesce", "hw_vif_multiqueue_enabled"):
        return text.lower() in ("1", "t", "true", "on", "y", "yes")
    return text


def number():
    return pick(NUMBERS) if R.random() < .8 else pick(WORDS)


def amounts(c):
    """Hosts that just have, or just lack, what the flavor asks for."""
    f = flavor(c)
    f["vcpus"] = pick([1, 2, 4, 7, 64])
    f["memory_mb"] = pick([0, 1, 512, 4096, 65536])
    f["root_gb"], f["ephemeral_gb"] = pick([0, 1, 20, 100]), pick([0, 0, 10])
    f["swap"] = pick([0, 0, 1, 512, 1024])
    disk = 1024 * (f["root_gb"] + f["ephemeral_gb"]) + f["swap"]
    for n in c["compute_nodes"]:
        for k in ("cpu", "ram", "disk"):
            n[k + "_allocation_ratio"] = pick([None, 0.0, 1.0, 1.0, 1.5, 16.0, 0.5, 0.1, 2.7, 9999.0, -1.0])
        around = pick([-1, 0, 0, 1])
        ratio = n["cpu_allocation_ratio"] or 16.0
        n["vcpus"] = pick([0, f["vcpus"], f["vcpus"] - 1, 2 * f["vcpus"], 48])
        n["vcpus_used"] = pick([int(n["vcpus"] * ratio) - f["vcpus"] + around, n["vcpus"] - f["vcpus"], 0])
        total = pick([0, f["memory_mb"], f["memory_mb"] - 1, 2 * f["memory_mb"] + 1, 131072])
        ratio = n["ram_allocation_ratio"] or 1.5
        n["memory_mb"] = total
        n["free_ram_mb"] = pick([f["memory_mb"], f["memory_mb"] + around,
            int(total + f["memory_mb"] - total * ratio) + around, -5, total])
        ratio = n["disk_allocation_ratio"] or 1.0
        n["local_gb"] = total = pick([0, disk // 1024, disk // 1024 + 1, 500])
        n["free_disk_gb"] = pick([disk // 1024, disk // 1024 + around,
            int(total + disk / 1024 - total * ratio) + around, total])
        n["disk_available_least"] = pick([None, None, disk // 1024, -3, 1000])
        if R.random() < .05:
            n["free_disk_gb"] = None


def ratios(c):
    """Aggregates with ratios and multipliers of their own."""
    aggregates(c)
    for a in c["aggregates"]:
        for k in ("cpu", "ram", "disk"):
            if R.random() < .5:
                a["metadata"][k + "_allocation_ratio"] = number()
        for k in ("hypervisor_version", "num_instances", "image_props"):
            if R.random() < .4:
                a["metadata"][k + "_weight_multiplier"] = number()


def aggregates(c):
    hosts = sorted({n["host"] for n in c["compute_nodes"]})
    for i in range(R.randint(1, 3)):
        c["aggregates"].append({
            "uuid": "00000a67-0000-4000-8000-%012x" % R.getrandbits(40), "name": "r%d" % i,
            "hosts": sorted(R.sample(hosts, R.randint(0, len(hosts)))), "metadata": {}})


def retry(c):
    tried = []
    for _ in range(R.randint(0, 4)):
        n, other = pick(c["compute_nodes"]), pick(c["compute_nodes"])
        host, node = n["host"], n["hypervisor_hostname"]
        r = R.random()
        if r < .1:
            host = host.upper()
        elif r < .2:
            node = other["hypervisor_hostname"]
        elif r < .25:
            node = None
        tried.append(wrap("ComputeNode", "1.19", {"host": host, "hypervisor_hostname": node}))
    nodes = wrap("ComputeNodeList", "1.17", {"objects": tried})
    spec(c)["retry"] = pick([wrap("SchedulerRetries", "1.1", {"num_attempts": len(tried), "hosts": nodes})] * 5 + [None])


def types(c):
    flavor(c)["id"] = pick(FLAVORS)
    for i in c["instances"]:
        i["instance_type_id"] = flavor(c)["id"] if R.random() < .9 else pick(FLAVORS)


def images(c):
    """Instances with images like the one that is asked for."""
    asked = {k: pick(v) for k, v in PROPERTIES.items() if R.random() < .5}
    for i in c["instances"]:
        has = {}
        for k in PROPERTIES:
            if R.random() < .6:
                has["image_" + k] = asked[k] if k in asked and R.random() < .6 else pick(PROPERTIES[k])
        for k in BESIDES:
            if R.random() < .5:
                has[k] = BESIDES[k]
        if R.random() < .1:
            has["image_trait:HW_CPU_X86_AVX"] = "required"
        i["system_metadata"] = {} if R.random() < .1 else has
    if R.random() < .1:
        spec(c)["image"] = None
    else:
        if spec(c)["image"] is None:
            spec(c)["image"] = copy.deepcopy(pick([b for b in base if spec(b)["image"]])["request_spec"][
                "nova_object.data"]["image"])
        props = data(data(spec(c)["image"])["properties"])
        for k, v in asked.items():
            if k != "no_such_property":
                props[k] = typed(v, k)
    g = c["config"]
    g["image_props_weight_multiplier"] = pick([1.0, 1.0, 2.5, -1.0, 0.0])
    g["image_props_weight_setting"] = [
        pick(sorted(PROPERTIES)) + pick(["=1", "=2.5", "=-1", "=0", "= 3", "=x", "", "=1=2", " =2"])
        for _ in range(pick([0, 0, 1, 2, 4]))]


def versions(c):
    for n in c["compute_nodes"]:
        n["hypervisor_version"] = pick([0, 1, 6002000, 6002000, 8001002, 2147483647])
    c["config"]["hypervisor_version_weight_multiplier"] = pick([1.0, 1.0, -1.0, 0.0, 2.5, 1e-3])
    c["config"]["num_instances_weight_multiplier"] = pick([0.0, 1.0, -1.0, 2.5, -1e6])
    for n in c["compute_nodes"]:
        if R.random() < .5:
            stats = json.loads(n.get("stats") or "{}")
            if isinstance(stats, dict):
                stats["num_instances"] = pick(["0", "3", 7, "50"])
                n["stats"] = json.dumps(stats)


def several(c):
    n = R.randint(2, 5)
    c["instance_uuids"] = ["66666666-0000-4000-8000-%012x" % R.getrandbits(40) for _ in range(n)]
    spec(c)["instance_uuid"], spec(c)["num_instances"] = c["instance_uuids"][0], n


def small(c):
    R.shuffle(c["compute_nodes"])
    c["compute_nodes"] = c["compute_nodes"][:R.randint(3, 6)]
    kept = {n["host"] for n in c["compute_nodes"]}
    for key in ("services", "instances"):
        c[key] = [s for s in c[key] if s["host"] in kept]
    on = {}
    for i in c["instances"]:
        on.setdefault(i["host"], []).append(i)
    c["instances"] = [i for l in on.values() for i in l[:R.randint(0, 4)]]
    for n in c["compute_nodes"]:
        for key in ("running_vms", "current_workload", "updated_at", "deleted_at", "cpu_info", "metrics",
                    "numa_topology", "pci_stats"):
            n.pop(key, None)
    for s in c["services"]:
        for key in ("report_count", "uuid", "updated_at", "deleted_at", "topic"):
            s.pop(key, None)
    c["aggregates"] = []
    c.pop("server_groups", None)
    s = spec(c)
    for key in ("security_groups", "limits"):
        s.pop(key, None)
    s["instance_group"], s["numa_topology"] = None, None
    data(s["pci_requests"])["requests"] = []
    flavor(c)["extra_specs"] = {}
    hints = s["scheduler_hints"] or {}
    s["scheduler_hints"] = {k: v for k, v in hints.items() if k == "_nova_check_type"}
    s["ignore_hosts"], s["force_hosts"], s["force_nodes"] = None, None, None


def drawn(i):
    while True:
        c = copy.deepcopy(pick(base))
        small(c)
        if c["compute_nodes"] and len(c["cells"]) == 1:
            break
    c.pop("expected", None)
    c.pop("instance_uuids", None)
    g = c["config"]
    g.pop("weight_classes", None)
    g.update(host_subset_size=1, shuffle_best_same_weighed_hosts=False)
    g["metrics"] = {}
    g["enabled_filters"] = R.sample(FILTERS, R.randint(0, 3)) + pick([[], [], ["ComputeFilter"]])
    R.shuffle(g["enabled_filters"])
    g["weighers"] = WEIGHERS + R.sample(["RAMWeigher", "CPUWeigher", "DiskWeigher", "IoOpsWeigher"], R.randint(0, 2))
    R.shuffle(g["weighers"])
    for bend, odds in ((amounts, .7), (ratios, .5), (retry, .4), (types, .6), (images, .6), (versions, .8), (several, .2)):
        if R.random() < odds:
            bend(c)
    flavor(c).setdefault("id", FLAVORS[0])
    for n in c["instances"]:
        n.setdefault("instance_type_id", flavor(c)["id"])
        n.setdefault("system_metadata", {})
    c["focus"] = []
    c["id"] = "release-%d-%05d" % (SEED, i)
    return c


for i in range(COUNT):
    print(json.dumps(drawn(i), separators=(",", ":")))
