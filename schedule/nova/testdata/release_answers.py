"""Says what the filters and weighers of nova-releases.json decide, which the installed
Nova does not have. Their code is read out of a clone of Nova's repository, each of
its first and its last release (or the newest one); both must decide the same. It runs
over the objects, host states and base classes of the installed Nova.

usage: release_answers.py CLONE < cases > the same with the key "expected" """
import contextlib
import json
import os
import subprocess
import sys
import types

import nova_answers as answers

import nova.context
import nova.i18n
from nova import objects
from nova.objects import base as objects_base
from nova.objects import image_meta

CLONE = sys.argv[1]
with open(os.path.join(os.path.dirname(__file__), "nova-releases.json")) as f:
    INDEX = json.load(f)

# What these files import and the installed Nova has no more, or not yet.
nova.i18n._LW = nova.i18n._LI = lambda text: text
image_meta.ImageMetaProps.to_dict = objects_base.obj_to_primitive
# The cases have what would be read from a cell's database.
objects.CellMapping.get_by_uuid = classmethod(
    lambda cls, context, uuid: objects.CellMapping(uuid=uuid))
objects.InstanceList.fill_metadata = lambda self: None


@contextlib.contextmanager
def target_cell(context, mapping):
    yield context


nova.context.target_cell = target_cell


def module(release, path):
    commit = INDEX["releases"][release]["commit"]
    text = subprocess.run(
        ["git", "--git-dir", CLONE, "show", "%s:nova/%s" % (commit, path)],
        check=True, capture_output=True).stdout
    m = types.ModuleType("%s of %s" % (path, release))
    exec(compile(text, m.__name__, "exec"), m.__dict__)
    return m


def classes(kind, folder, which):
    """Those of each one's first (0) or last (-1) release."""
    out = {}
    for name, of in INDEX[kind].items():
        release = of["releases"][which]
        m = module(release, "scheduler/%s/%s" % (folder, of["file"]))
        if kind == "filters" and hasattr(m, "utils"):
            m.utils = module(release, "scheduler/filters/utils.py")
        out[name] = getattr(m, name)
    return out


def options():
    """Registers those that the weighers read."""
    m = module("33.0.0", "conf/scheduler.py")
    known = answers.CONF.filter_scheduler
    for opt in m.filter_scheduler_opts:
        if opt.dest not in known:
            answers.CONF.register_opt(opt, m.filter_scheduler_group)


def answer(case, which):
    answers.FILTERS.update(FILTERS[which])
    answers.WEIGHERS.update(WEIGHERS[which])
    return answers.Cloud(case).answer()


options()
FILTERS = {w: classes("filters", "filters", w) for w in (0, -1)}
WEIGHERS = {w: classes("weighers", "weights", w) for w in (0, -1)}

for line in sys.stdin:
    case = json.loads(line)
    case["alone"] = sorted(INDEX["filters"])
    case["expected"] = answer(case, -1)
    first = answer(case, 0)
    if first != case["expected"]:
        sys.exit("%s: releases differ:\n%s\n%s" % (case["id"], first, case["expected"]))
    print(json.dumps(case, separators=(",", ":")), flush=True)
