"""Says what Nova decides. Reads cases of the golden form a line, writes each with
the key "expected" anew: what Nova's own code answers."""
import collections
import copy
import datetime
import json
import logging
import sys
import warnings

warnings.simplefilter("ignore")

from nova import objects  # noqa: E402
from nova import context as nova_context  # noqa: E402
from nova.scheduler import filters as nova_filters  # noqa: E402
from nova.scheduler import host_manager  # noqa: E402
from nova.scheduler import weights as nova_weights  # noqa: E402
from nova.objects import base as objects_base  # noqa: E402
from nova.db.main import api as main_db  # noqa: E402
import nova.conf  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

logging.disable(logging.CRITICAL)
objects.register_all()
CONF = nova.conf.CONF
CONF([], default_config_files=[], default_config_dirs=[])
CTX = nova_context.get_admin_context()
# What old rows are brought up to date with is not written anywhere here.
main_db.compute_node_update = lambda *a, **k: None

FILTERS = {c.__name__: c for c in nova_filters.all_filters()}
WEIGHERS = {c.__name__: c for c in nova_weights.all_weighers()}


def parse_time(s):
    if s is None:
        return None
    return datetime.datetime.fromisoformat(s.replace("Z", "")).replace(
        tzinfo=datetime.timezone.utc)


def configure(config):
    for name, value in config.items():
        if name == "weighers":
            continue
        if name == "metrics":
            for k, v in value.items():
                CONF.set_override(k, v, "metrics")
        elif name == "DEFAULT":
            for k, v in value.items():
                CONF.set_override(k, v)
        else:
            CONF.set_override(name, value, "filter_scheduler")


COMPUTE = {k: None for k in objects.ComputeNode.fields}


def compute_node(row, i):
    db = dict(COMPUTE, id=i + 1, mapped=1, created_at=None, updated_at=None,
              deleted_at=None)
    db.update(row)
    db["deleted"] = bool(db.get("deleted"))
    for k in ("created_at", "updated_at", "deleted_at"):
        db[k] = parse_time(db[k])
    for k in ("stats", "supported_instances", "pci_stats"):
        db.setdefault(k, None)
    return objects.ComputeNode._from_db_object(CTX, objects.ComputeNode(), db)


def service(row, i):
    db = {k: None for k in objects.Service.fields}
    db.update(id=i + 1, report_count=0, disabled=False, forced_down=False,
              version=0)
    db.pop("compute_node")
    db.pop("availability_zone")
    db.update(row)
    db["deleted"] = bool(db.get("deleted"))
    for k in ("created_at", "updated_at", "deleted_at", "last_seen_up"):
        db[k] = parse_time(db.get(k))
    return objects.Service._from_db_object(CTX, objects.Service(), db)


def instance(row):
    """With what the row says beyond its uuid: the flavor's number, and the texts
    of its image."""
    i = objects.Instance(CTX, uuid=row["uuid"])
    if "instance_type_id" in row:
        i.instance_type_id = row["instance_type_id"]
    if "system_metadata" in row:
        i.image_ref = ""
        i.system_metadata = row["system_metadata"]
    return i


class Error(Exception):
    def __init__(self, stage, e):
        self.entry = {"stage": stage, "class": type(e).__name__,
                      "message": str(e)}


def candidates(states):
    """Gives each host one allocation candidate that filters may take away, as newer
    releases have them."""
    for s in states:
        s.allocation_candidates = [{"allocations": {}, "mappings": {}}]


def limits(state):
    """Those of amounts, as the wire has them."""
    l = objects.SchedulerLimits.from_dict(
        {k: v for k, v in state.limits.items() if k != "numa_topology"})
    return {k: getattr(l, k) for k in ("vcpu", "memory_mb", "disk_gb")
            if l.obj_attr_is_set(k) and getattr(l, k) is not None}


class Cloud:
    def __init__(self, case):
        self.case = case
        self.first = case["cells"][0]["uuid"]
        self.node_key = case["host_key"] == "host/node"

    def cell_of(self, row):
        return row.get("cell_uuid") or self.first

    def key(self, state):
        if self.node_key:
            return "%s/%s" % (state.host, state.nodename)
        return state.host

    def spec(self):
        return objects_base.NovaObject.obj_from_primitive(
            copy.deepcopy(self.case["request_spec"]), context=CTX)

    def cells(self, spec):
        d = spec.requested_destination
        if d and "cell" in d and d.cell and not d.allow_cross_cell_move:
            return [d.cell.uuid]
        return [c["uuid"] for c in self.case["cells"] if not c["disabled"]]

    def states(self, spec):
        m = host_manager.HostManager.__new__(host_manager.HostManager)
        m.host_aggregates_map = collections.defaultdict(set)
        m.aggs_by_id = {}
        for i, a in enumerate(self.case["aggregates"]):
            agg = objects.Aggregate(
                id=i, uuid=a["uuid"], name=a["name"], hosts=a["hosts"],
                metadata=a["metadata"])
            m.aggs_by_id[i] = agg
            for h in a["hosts"]:
                m.host_aggregates_map[h].add(i)
        cells = self.cells(spec)
        services = {}
        for i, row in enumerate(self.case["services"]):
            if (row["binary"] == "nova-compute" and not row.get("deleted") and
                    self.cell_of(row) in cells):
                services[row["host"]] = service(row, i)
        by_cell = collections.OrderedDict()
        order = {}
        for i, row in enumerate(self.case["compute_nodes"]):
            if row.get("deleted") or self.cell_of(row) not in cells:
                continue
            node = compute_node(row, i)
            order[(node.host, node.hypervisor_hostname)] = i
            by_cell.setdefault(self.cell_of(row), []).append(node)

        def instances(context, compute):
            cell = [r for r in self.case["compute_nodes"]
                    if r["uuid"] == compute.uuid][0]
            return {r["uuid"]: instance(r) for r in self.case["instances"]
                    if not r.get("deleted") and r["host"] == compute.host and
                    self.cell_of(r) == self.cell_of(cell)}
        m._get_instance_info = instances
        states = list(m._get_host_states(CTX, by_cell, services))
        states.sort(key=lambda s: order[(s.host, s.nodename)])
        return states

    def manager(self, names):
        """A host manager that filters and weighs only."""
        m = host_manager.HostManager.__new__(host_manager.HostManager)
        m.filter_handler = nova_filters.HostFilterHandler()
        m.enabled_filters = [FILTERS[n]() for n in names]
        m.weight_handler = nova_weights.HostWeightHandler()
        m.weighers = [WEIGHERS[n]() for n in self.case["config"]["weighers"]]
        return m

    def alone(self, states, spec, out):
        per, errors = {}, {}
        asked = self.case.get("alone")
        for name in asked or sorted(FILTERS):
            f = FILTERS[name]()
            candidates(states)
            try:
                passed = [self.key(s) for s in f.filter_all(states, spec)]
            except Exception as e:
                errors[name] = {"class": type(e).__name__, "message": str(e)}
                continue
            if (asked or len(passed) < len(states) or
                    name in self.case["config"]["enabled_filters"]):
                per[name] = passed
        out["per_filter"] = per
        if errors:
            out["per_filter_error"] = errors

    def weigh(self, m, hosts, spec):
        hosts = list(hosts)
        raw = collections.defaultdict(dict)
        if len(hosts) > 1:
            probe = [nova_weights.WeighedHost(h, 0.0) for h in hosts]
            for w in m.weighers:
                for h, x in zip(hosts, w.weigh_objects(probe, spec)):
                    raw[self.key(h)][type(w).__name__] = x
        weighed = m.get_weighed_hosts(hosts, spec)
        out = []
        for w in weighed:
            e = {"host": w.obj.host, "weight": w.weight,
                 "raw": raw[self.key(w.obj)]}
            if self.node_key:
                e["node"] = w.obj.nodename
            out.append(e)
        return out

    def sequence(self, m, spec, states):
        """As SchedulerManager._schedule picks, when every claim succeeds."""
        picked = []
        for num, uuid in enumerate(self.case["instance_uuids"]):
            spec.instance_uuid = uuid
            candidates(states)
            states = list(m.get_filtered_hosts(states, spec, num))
            if not states:
                return {"hosts": picked, "error": True}
            weighed = m.get_weighed_hosts(states, spec)
            host = weighed[0].obj
            states = [w.obj for w in weighed]
            picked.append(self.key(host))
            host.consume_from_request(spec)
            if spec.instance_group is not None:
                host.instances[uuid] = objects.Instance(CTX, uuid=uuid)
                spec.instance_group.hosts.append(host.host)
                spec.instance_group.obj_reset_changes(["hosts"])
        return {"hosts": picked}

    def answer(self):
        timeutils.set_time_override(
            parse_time(self.case["now"]).replace(tzinfo=None))
        configure(self.case["config"])
        out = {}
        try:
            spec = self.spec()
            try:
                states = self.states(spec)
            except Exception as e:
                raise Error("host_states", e)
            out["hosts"] = [self.key(s) for s in states]
            self.alone(states, spec, out)
            for s in states:
                s.limits = {}
            candidates(states)
            m = self.manager(self.case["config"]["enabled_filters"])
            try:
                passed = list(m.get_filtered_hosts(states, spec, 0))
            except Exception as e:
                raise Error("filter", e)
            out["passed"] = [self.key(s) for s in passed]
            if "alone" in self.case:
                out["limits"] = {self.key(s): limits(s) for s in passed}
            try:
                out["weighed"] = self.weigh(m, passed, spec)
            except Exception as e:
                raise Error("weigh", e)
            if self.case.get("instance_uuids"):
                try:
                    out["sequence"] = self.sequence(
                        m, self.spec(), self.states(spec))
                except Exception as e:
                    out["sequence_raised"] = "%s: %s" % (type(e).__name__, e)
        except Error as e:
            out["error"] = e.entry
        finally:
            CONF.reset()
            CONF.clear()
            timeutils.clear_time_override()
        return out


def main():
    for line in sys.stdin:
        case = json.loads(line)
        CONF([], default_config_files=[], default_config_dirs=[])
        try:
            Cloud(case).spec()
            configure(case["config"])
        except Exception as e:
            # No request, or options, that Nova would take. The options set
            # before the refused one must not reach the next case.
            CONF.reset()
            print("%s: %s" % (case["id"], e), file=sys.stderr)
            continue
        case["expected"] = Cloud(case).answer()
        print(json.dumps(case, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
