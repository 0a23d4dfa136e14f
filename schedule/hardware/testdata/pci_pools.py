"""Says whether pools of PCI devices meet requests by the providers that Placement gave
(nova/pci/stats.py, PciDeviceStats.support_requests). The argument is a stats.py of 2024.1
or later, which runs among the modules of the installed Nova. Reads a case of
pcipools_test.go a line, and writes it with the answer."""
import copy
import json
import sys
import types
from unittest import mock

import nova.conf  # noqa: F401
from nova import objects

objects.register_all()
NEWER = types.ModuleType("stats")
with open(sys.argv[1]) as f:
    exec(compile(f.read(), sys.argv[1], "exec"), NEWER.__dict__)


def request(r):
    out = objects.InstancePCIRequest(
        count=r["count"], spec=[r["spec"]], alias_name="gpu", numa_policy=r["policy"] or None)
    out._obj_request_id = r["id"]  # The field takes a uuid alone.
    return out


for line in sys.stdin:
    case = json.loads(line)
    cells = [types.SimpleNamespace(id=i, socket=s) for i, s in enumerate(case["sockets"])]
    stats = NEWER.PciDeviceStats(
        types.SimpleNamespace(cells=cells) if cells else None, dev_filter=mock.Mock())
    stats.pools = sorted((copy.copy(p) for p in case["pools"]), key=len)
    requests = [request(r) for r in case["requests"]]
    guest = [types.SimpleNamespace(id=i) for i in case["cells"] or []] or None
    before = sum(p["count"] for p in stats.pools)
    case["supports"] = stats.support_requests(requests, case["mapping"], guest)
    case["taken"] = 0
    if case["supports"]:
        stats.apply_requests(requests, case["mapping"], guest)
        case["taken"] = before - sum(p["count"] for p in stats.pools)
    print(json.dumps(case, sort_keys=True))
