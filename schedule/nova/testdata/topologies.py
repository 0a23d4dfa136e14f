"""Says what Nova's API makes of a flavor and an image: the NUMA topology and the
requests for PCI devices. Reads a case of topology_test.go a line, writes both or the
exception's class."""
import json
import logging
import sys

logging.disable(logging.CRITICAL)

from nova import objects  # noqa: E402
from nova.pci import request as pci_request  # noqa: E402
from nova.virt import hardware  # noqa: E402
import nova.conf  # noqa: E402

objects.register_all()
CONF = nova.conf.CONF
CONF([], default_config_files=[], default_config_dirs=[])


def cell(c):
    out = {"id": c.id, "cpus": len(c.cpuset), "dedicated": len(c.pcpuset),
           "memory": c.memory}
    for key, value in (("pagesize", c.pagesize), ("policy", c.cpu_policy),
                       ("threads", c.cpu_thread_policy)):
        if value:
            out[key] = value
    return out


def answer(case):
    CONF.set_override("alias", case.get("aliases") or [], "pci")
    flavor = objects.Flavor(name="f", root_gb=1, ephemeral_gb=0, swap=0,
                            **case["flavor"])
    image = objects.ImageMeta.from_dict({
        "id": "b1000000-0000-4000-8000-000000000001", "name": "i",
        "properties": dict(case["properties"])})
    numa = hardware.numa_get_constraints(flavor, image)
    policy = hardware.get_pci_numa_policy_constraint(flavor, image)
    asked = pci_request.get_pci_requests_from_flavor(
        flavor, affinity_policy=policy)
    out = {}
    if numa:
        out["cells"] = [cell(c) for c in numa.cells]
        if numa.emulator_threads_policy == "isolate":
            out["isolate"] = True
    devices = [{"count": r.count, "policy": r.numa_policy,
                "specs": [dict(s) for s in r.spec]} for r in asked.requests]
    if devices:
        out["devices"] = devices
    return out


for line in sys.stdin:
    try:
        out = answer(json.loads(line))
    except Exception as e:
        out = {"error": type(e).__name__}
    print(json.dumps(out), flush=True)
