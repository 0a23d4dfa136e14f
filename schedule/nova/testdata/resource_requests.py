"""Says what Nova asks of Placement. Reads a case of resourcerequest_test.go a
line, writes Nova's query string (without a limit) or the exception's class."""
import json
import logging
import sys

logging.disable(logging.CRITICAL)

from nova import objects  # noqa: E402
from nova.scheduler import request_filter  # noqa: E402
from nova.scheduler import utils  # noqa: E402
import nova.conf  # noqa: E402

objects.register_all()
CONF = nova.conf.CONF
CONF([], default_config_files=[], default_config_dirs=[])
FILTERS = [
    request_filter.require_image_type_support,
    request_filter.compute_status_filter,
    request_filter.transform_image_metadata,
    request_filter.accelerators_filter,
    request_filter.ephemeral_encryption_filter,
]


def answer(case):
    for name in ("query_placement_for_image_type_support",
                 "image_metadata_prefilter"):
        CONF.set_override(name, case["options"].get(name, False), "scheduler")
    flavor = objects.Flavor(name="f", **case["flavor"])
    image = dict(case["image"], id="b1000000-0000-4000-8000-000000000001",
                 name="i")
    spec = objects.RequestSpec(
        flavor=flavor, image=objects.ImageMeta.from_dict(image),
        is_bfv=case["is_bfv"], num_instances=1,
        request_level_params=objects.RequestLevelParams())
    for f in FILTERS:
        f(None, spec)
    asked = utils.ResourceRequest.from_request_spec(
        spec, enable_pinning_translate=case["pinning"])
    asked._limit = None
    return asked.to_querystring()


for line in sys.stdin:
    try:
        out = {"query": answer(json.loads(line))}
    except Exception as e:
        out = {"error": type(e).__name__, "message": str(e)[:200]}
    print(json.dumps(out), flush=True)
