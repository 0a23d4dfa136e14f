# SPDX-License-Identifier: Apache-2.0
"""A conductor's request as cellgate's SelectDestinationsRequest."""

import hashlib
import json

from oslo_serialization import jsonutils

# Lists of Nova's objects that are sets: another process gives them in another
# order (hash randomisation), and the same request must be the same bytes.
_SETS = {
    'InstanceGroup': ('members', 'hosts'),
    'RequestSpec': ('ignore_hosts',),
}


def primitive(spec_obj):
    """RequestSpec.obj_to_primitive(), the same for the same request."""
    return _canonical(jsonutils.to_primitive(spec_obj.obj_to_primitive()))


def _canonical(value):
    if isinstance(value, list):
        return [_canonical(v) for v in value]
    if not isinstance(value, dict):
        return value
    # What changed since an object was loaded is the sender's affair, in the
    # order of a set.
    out = {k: _canonical(v) for k, v in value.items()
           if k != 'nova_object.changes'}
    data = out.get('nova_object.data')
    if isinstance(data, dict):
        for name in _SETS.get(out.get('nova_object.name'), ()):
            if isinstance(data.get(name), list):
                data[name] = sorted(data[name])
    return out


def prefix(context):
    """What the ids of all requests of one API request start with."""
    return 'nova/%s/' % (context.request_id or 'none')


def build(context, spec, instance_uuids, alternates, claim_ttl, operation):
    """The request's fields.

    spec is the primitive; alternates how many an instance may have, 0 for
    none. The request_id names the API request and everything that is asked:
    the same message delivered again has the same id, another attempt of the
    same API request (a live migration that goes on to the next host, a
    reschedule) has another.
    """
    fields = {
        'instance_uuids': list(instance_uuids),
        'nova_request_spec': spec,
        'return_alternates': alternates > 0,
        'claim_ttl': '%ds' % claim_ttl,
    }
    if alternates > 0:
        fields['max_alternates'] = min(alternates, 32)
    if operation:
        fields['operation'] = operation
    text = json.dumps(fields, sort_keys=True).encode()
    fields['request_id'] = (
        prefix(context) + hashlib.sha256(text).hexdigest()[:32])
    return fields
