"""Says what the newest release of Nova decides of cases that Zed has answered.

usage: newest_answers.py FOLDER < cases > {"id", "expected"} of each
FOLDER is as newest_nova.py has it."""
import json
import sys

import newest_nova

newest_nova.load(sys.argv[1])

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
