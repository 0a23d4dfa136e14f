"""Says what the newest release of Nova decides of cases that Zed has answered, over the
libraries of the installed Nova: its own tree and two modules of libraries that it needs
newer are read out of clones (commits in nova-releases.json), and the options of
oslo.service, which no filter reads, are left empty.

usage: newest_answers.py FOLDER < cases > {"id", "expected"} of each
FOLDER has git directories nova, oslo.utils and os-traits."""
import atexit
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "nova-releases.json")) as f:
    NEWEST = json.load(f)["newest"]
TREE = tempfile.mkdtemp()
atexit.register(shutil.rmtree, TREE)
for name, path in (("nova", "nova"), ("os-traits", "os_traits"), ("oslo.utils", "oslo_utils/versionutils.py")):
    clone = os.path.join(sys.argv[1], name)
    tar = subprocess.run(["git", "--git-dir", clone, "archive", NEWEST[name]["commit"], path],
                         check=True, capture_output=True).stdout
    to = os.path.join(TREE, "beside") if name == "oslo.utils" else TREE
    tarfile.open(fileobj=io.BytesIO(tar)).extractall(to)
sys.path[:0] = [TREE, HERE]

import oslo_service  # noqa: E402
import oslo_utils  # noqa: E402

spec = importlib.util.spec_from_file_location(
    "oslo_utils.versionutils", os.path.join(TREE, "beside", "oslo_utils", "versionutils.py"))
oslo_utils.versionutils = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oslo_utils.versionutils)
oslo_service.opts = sys.modules["oslo_service.opts"] = types.ModuleType("oslo_service.opts")
oslo_service.opts.__getattr__ = lambda name: lambda *a, **k: []

import nova_answers as answers  # noqa: E402

# Zed's, which the cases go by.
RATIOS = {"initial_cpu_allocation_ratio": 16.0, "initial_ram_allocation_ratio": 1.5}

for line in sys.stdin:
    case = json.loads(line)
    config = case["config"]
    config["enabled_filters"] = [f for f in config["enabled_filters"] if f != "AvailabilityZoneFilter"]
    config["DEFAULT"] = dict(RATIOS, **config.get("DEFAULT", {}))
    answers.CONF([], default_config_files=[], default_config_dirs=[])
    print(json.dumps({"id": case["id"], "expected": answers.Cloud(case).answer()}, separators=(",", ":")), flush=True)
