"""Says which allocation candidates Placement gives. Reads a case of
tree_placement_test.go a line, writes the candidates as that test writes its own;
null when Placement refuses the query."""
import json
import os
import sys
import tempfile
import uuid
import warnings

warnings.simplefilter("ignore")
place = tempfile.mkdtemp()
with open(os.path.join(place, "placement.conf"), "w") as f:
    f.write("[DEFAULT]\nlog_file = %s/placement.log\n"
            "[api]\nauth_strategy = noauth2\n"
            "[placement_database]\nconnection = sqlite:///%s/p.sqlite\n"
            "sync_on_startup = true\n" % (place, place))
os.environ["OS_PLACEMENT_CONFIG_DIR"] = place

from placement import wsgi  # noqa: E402
import webob  # noqa: E402
from urllib.parse import urlencode  # noqa: E402

APP = wsgi.init_application()
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.36",
           "Content-Type": "application/json", "Accept": "application/json"}


def call(method, path, body=None, want=(200, 201, 204)):
    req = webob.Request.blank(path, method=method, headers=HEADERS)
    if body is not None:
        req.body = json.dumps(body).encode()
    resp = req.get_response(APP)
    if want and resp.status_int not in want:
        raise RuntimeError("%s %s: %s" % (method, path, resp.text))
    return resp


def inventories(provider, generation, of):
    call("PUT", "/resource_providers/%s/inventories" % provider,
         {"resource_provider_generation": generation, "inventories": of})


def build(tree):
    ids = [str(uuid.uuid4()) for _ in tree]
    for i, p in enumerate(tree):
        body = {"name": ids[i], "uuid": ids[i]}
        if i > 0:
            body["parent_provider_uuid"] = ids[p["parent"]]
        call("POST", "/resource_providers", body)
        inventories(ids[i], 0, {c: {"total": 100000}
                                for c in p["inventories"]})
        call("PUT", "/resource_providers/%s/traits" % ids[i],
             {"resource_provider_generation": 1, "traits": p["traits"] or []})
        if p.get("aggregates"):
            call("PUT", "/resource_providers/%s/aggregates" % ids[i],
                 {"resource_provider_generation":
                  call("GET", "/resource_providers/" + ids[i]).json[
                      "generation"], "aggregates": p["aggregates"]})
    used = {ids[i]: {"resources": p["used"]}
            for i, p in enumerate(tree) if p.get("used")}
    consumer = str(uuid.uuid4())
    if used:
        call("PUT", "/allocations/" + consumer,
             {"allocations": used, "project_id": "p", "user_id": "u",
              "consumer_generation": None})
    for i, p in enumerate(tree):
        generation = call("GET", "/resource_providers/" + ids[i]).json[
            "generation"]
        inventories(ids[i], generation, p["inventories"])
    return ids, consumer


def drop(ids, consumer):
    call("DELETE", "/allocations/" + consumer, want=())
    for i in reversed(ids):
        call("DELETE", "/resource_providers/" + i)


def amounts(of):
    return ",".join("%s:%d" % x for x in sorted(of.items()))


def traits(required, forbidden):
    return ",".join((required or []) + ["!" + t for t in forbidden or []])


def query(r, ids):
    params = []

    def add(key, value):
        if value:
            params.append((key, value))
    add("resources", amounts(r["resources"] or {}))
    add("required", traits(r["required"], r["forbidden"]))
    add("root_required", traits(r["root_required"], r["root_forbidden"]))
    add("group_policy", r["policy"])
    for g in r["groups"] or []:
        add("resources" + g["suffix"], amounts(g["resources"] or {}))
        add("required" + g["suffix"], traits(g["required"], g["forbidden"]))
        for of in g.get("member_of") or []:
            add("member_of" + g["suffix"], "in:" + ",".join(of))
        if g.get("not_in"):
            add("member_of" + g["suffix"], "!in:" + ",".join(g["not_in"]))
        if g.get("in_tree") is not None:
            n = g["in_tree"]
            add("in_tree" + g["suffix"], ids[n] if n < len(ids) else OTHER)
    for s in r["same_subtree"] or []:
        add("same_subtree", ",".join(s))
    return urlencode(params)


def text(candidate, ids):
    number = {u: i for i, u in enumerate(ids)}
    taken = sorted("%d %s=%d" % (number[u], c, n)
                   for u, a in candidate["allocations"].items()
                   for c, n in a["resources"].items())
    mapped = sorted("%s:%s" % (s, ",".join(
        str(n) for n in sorted(number[u] for u in of)))
        for s, of in candidate["mappings"].items())
    return "; ".join(taken) + " | " + " ".join(mapped)


OTHER = str(uuid.uuid4())
call("POST", "/resource_providers", {"name": OTHER, "uuid": OTHER})
known = set()
for line in sys.stdin:
    case = json.loads(line)
    names, classes = set(), set()
    r = case["request"]
    for p in case["tree"]:
        names.update(p["traits"] or [])
        classes.update(p["inventories"])
    for g in [r] + (r["groups"] or []):
        names.update((g["required"] or []) + (g["forbidden"] or []))
        classes.update(g["resources"] or {})
    names.update((r["root_required"] or []) + (r["root_forbidden"] or []))
    for n in sorted(names - known):
        call("PUT", "/traits/" + n)
    for n in sorted(c for c in classes - known if c.startswith("CUSTOM_")):
        call("PUT", "/resource_classes/" + n)
    known |= names | classes
    ids, consumer = build(case["tree"])
    resp = call("GET", "/allocation_candidates?" + query(r, ids), want=())
    drop(ids, consumer)
    out = {"candidates": None, "error": ""}
    if resp.status_int == 200:
        out["candidates"] = sorted({text(c, ids) for c in
                                    resp.json["allocation_requests"]})
    else:
        out["error"] = resp.json["errors"][0]["detail"][:200]
    print(json.dumps(out), flush=True)
