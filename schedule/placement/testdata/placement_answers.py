"""Asks Placement 8.0.0 for allocation candidates: through its WSGI application, with a database in memory. Reads a
fleet with queries a line (see reference_test.go), writes Placement's answers to them a line.

Each query is asked twice: of Placement as it is, and of one that keeps two of its steps apart. "as_it_is" tells whether
the answers are the same.

- Unless group_policy is none, amounts that two groups take of one inventory are added up in an object that other
  candidates have too (research_context.py, copy_arr_if_needed).
- What the group without a suffix takes from sharing providers alone is kept for one of the trees that they share with,
  for whichever comes first in a set (allocation_candidate.py, _alloc_candidates_multiple_providers). Other groups are
  then found in that tree only.
"""
import atexit
import collections
import copy
import json
import os
import shutil
import sys
import tempfile
import uuid
import warnings

warnings.simplefilter("ignore")
place = tempfile.mkdtemp()
atexit.register(shutil.rmtree, place)
with open(os.path.join(place, "placement.conf"), "w") as f:
    f.write("[DEFAULT]\nlog_file = %s/placement.log\n"
            "[api]\nauth_strategy = noauth2\n"
            "[placement_database]\nconnection = sqlite://\n"
            "sync_on_startup = true\n" % place)
os.environ["OS_PLACEMENT_CONFIG_DIR"] = place

from placement import wsgi  # noqa: E402
from placement import db_api  # noqa: E402
from placement.db.sqlalchemy import models  # noqa: E402
from placement.objects import allocation_candidate as ac  # noqa: E402
from placement.objects import research_context as rc  # noqa: E402
import sqlalchemy as sa  # noqa: E402
import webob  # noqa: E402

APP = wsgi.init_application()
sys.excepthook = sys.__excepthook__  # oslo.log writes to its file alone
T = {m.__tablename__: m.__table__ for m in (
    models.ResourceProvider, models.Inventory, models.Allocation,
    models.ResourceProviderAggregate, models.PlacementAggregate,
    models.ResourceProviderTrait, models.Trait, models.ResourceClass)}


def call(method, path, version, body=None):
    req = webob.Request.blank(path, method=method, headers={
        "X-Auth-Token": "admin", "Accept": "application/json",
        "Content-Type": "application/json",
        "OpenStack-API-Version": "placement " + version})
    if body is not None:
        req.body = json.dumps(body).encode()
    return req.get_response(APP)


class Apart(object):
    """Switches between Placement as it is and with its steps apart."""

    def __init__(self):
        request = ac.AllocationRequest
        self.was = (rc.RequestWideSearchContext.copy_arr_if_needed,
                    request.__eq__, request.__hash__,
                    ac._consolidate_allocation_requests)

    def __enter__(self):
        _, equal, digest, consolidate = self.was
        request = ac.AllocationRequest
        rc.RequestWideSearchContext.copy_arr_if_needed = (
            lambda _, arr: copy.copy(arr))
        request.__eq__ = lambda a, b: (
            equal(a, b) and
            a.anchor_root_provider_uuid == b.anchor_root_provider_uuid)
        request.__hash__ = digest

        def merged(areqs, rw_ctx):
            out = consolidate(areqs, rw_ctx)
            out.anchor_root_provider_uuid = None
            return out
        ac._consolidate_allocation_requests = merged

    def __exit__(self, *_):
        request = ac.AllocationRequest
        (rc.RequestWideSearchContext.copy_arr_if_needed, request.__eq__,
         request.__hash__, ac._consolidate_allocation_requests) = self.was


def ids(session, table):
    t = T[table]
    return {r[1]: r[0] for r in session.execute(sa.select(t.c.id, t.c.name))}


@db_api.placement_context_manager.writer
def load(ctx, fleet):
    session = ctx.session
    for name in ("resource_providers", "inventories", "allocations",
                 "resource_provider_aggregates", "placement_aggregates",
                 "resource_provider_traits"):
        session.execute(T[name].delete())
    traits = ids(session, "traits")
    classes = ids(session, "resource_classes")
    rows, aggregates = collections.defaultdict(list), {}
    numbers, n = {}, 0
    for tree in fleet:
        root = n + 1
        for p in tree:
            n += 1
            numbers[p["UUID"]] = n
            rows["resource_providers"].append(dict(
                id=n, uuid=p["UUID"], name=p["UUID"], generation=0,
                root_provider_id=root,
                parent_provider_id=numbers.get(p["Parent"])))
            for t in p["Traits"] or []:
                rows["resource_provider_traits"].append(
                    dict(resource_provider_id=n, trait_id=traits[t]))
            for a in p["Aggregates"] or []:
                if a not in aggregates:
                    aggregates[a] = len(aggregates) + 1
                    rows["placement_aggregates"].append(
                        dict(id=aggregates[a], uuid=a))
                rows["resource_provider_aggregates"].append(
                    dict(resource_provider_id=n, aggregate_id=aggregates[a]))
            for i in p["Inventories"] or []:
                rows["inventories"].append(dict(
                    resource_provider_id=n,
                    resource_class_id=classes[i["Class"]], total=i["Total"],
                    reserved=i["Reserved"], min_unit=i["MinUnit"],
                    max_unit=i["MaxUnit"], step_size=i["StepSize"],
                    allocation_ratio=i["AllocationRatio"]))
                if i["Used"]:
                    rows["allocations"].append(dict(
                        resource_provider_id=n, consumer_id=str(uuid.uuid4()),
                        resource_class_id=classes[i["Class"]],
                        used=i["Used"]))
    for name, of in rows.items():
        session.execute(T[name].insert(), of)


def number(provider):
    return str(int(provider[-12:]))


def takes(allocations):
    if isinstance(allocations, list):  # before 1.12
        allocations = {a["resource_provider"]["uuid"]: a for a in allocations}
    return "; ".join(sorted(
        "%s %s=%d" % (number(p), c, n)
        for p, a in allocations.items() for c, n in a["resources"].items()))


def answer(ask):
    resp = call("GET", "/allocation_candidates?" + ask["query"],
                ask["microversion"])
    if resp.status_int != 200:
        return {"status": resp.status_int, "error": resp.text[:300]}
    requests = []
    for r in resp.json["allocation_requests"]:
        text = takes(r["allocations"])
        if "mappings" in r:  # from 1.34 on
            text += " | " + " ".join(sorted(
                "%s:%s" % (s, ",".join(sorted(map(number, of), key=int)))
                for s, of in r["mappings"].items()))
        requests.append(text)
    summaries = [
        "%s %s" % (number(p), " ".join(sorted(
            "%s=%d/%d" % (c, x["used"], x["capacity"])
            for c, x in s["resources"].items())))
        for p, s in resp.json["provider_summaries"].items()]
    return {"status": 200, "requests": sorted(requests),
            "summaries": sorted(summaries)}


def main():
    known, apart = set(), Apart()
    ctx = db_api.DbContext()
    for line in sys.stdin:
        case = json.loads(line)
        for name in case["traits"]:
            if name not in known and name.startswith("CUSTOM_"):
                assert call("PUT", "/traits/" + name, "1.39").status_int < 300
        for name in case["classes"]:
            if name not in known and name.startswith("CUSTOM_"):
                assert call("PUT", "/resource_classes/" + name,
                            "1.39").status_int < 300
        known.update(case["traits"], case["classes"])
        load(ctx, case["fleet"])
        out = []
        for ask in case["asks"]:
            with apart:
                a = answer(ask)
            b = answer(ask)
            if "limit=" in ask["query"]:  # any so many
                a["as_it_is"] = len(a["requests"]) == len(b["requests"])
            else:
                a["as_it_is"] = a == b
            out.append(a)
        print(json.dumps(out), flush=True)


main()
