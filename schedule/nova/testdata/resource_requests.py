"""Says what Nova asks of Placement. Reads a case of resourcerequest_test.go a
line, writes Nova's query string (without a limit) or the exception's class.

usage: resource_requests.py [FOLDER]
With a folder (newest_nova.py) the newest release is asked."""
import json
import logging
import sys

if len(sys.argv) > 1:
    import newest_nova
    newest_nova.load(sys.argv[1])

logging.disable(logging.CRITICAL)

from nova import objects  # noqa: E402
from nova.scheduler import request_filter  # noqa: E402
from nova.scheduler import utils  # noqa: E402
import nova.conf  # noqa: E402

objects.register_all()
CONF = nova.conf.CONF
CONF([], default_config_files=[], default_config_dirs=[])
FILTERS = [getattr(request_filter, name) for name in (
    "require_image_type_support", "compute_status_filter",
    "transform_image_metadata", "accelerators_filter",
    "packed_virtqueue_filter", "ephemeral_encryption_filter",
    "virtio_sound_filter", "tpm_secret_security_filter",
) if hasattr(request_filter, name)]


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
