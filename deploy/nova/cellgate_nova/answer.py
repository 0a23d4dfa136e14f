# SPDX-License-Identifier: Apache-2.0
"""cellgate's answers as Nova's objects and exceptions."""

import copy

from oslo_log import log as logging
import oslo_messaging as messaging

from cellgate_nova import schema
from nova import exception
from nova import objects

LOG = logging.getLogger(__name__)


def selections(found):
    """A list for each instance: the host, then the alternates."""
    return [[_selection(s) for s in [d.selected] + list(d.alternates)]
            for d in found.destinations]


def _selection(s):
    return objects.Selection(
        compute_node_uuid=s.compute_node_uuid,
        service_host=s.service_host,
        nodename=s.nodename,
        cell_uuid=s.cell_uuid,
        limits=_limits(schema.plain(s.limits)),
        allocation_request=s.allocation_request or None,
        allocation_request_version=s.allocation_request_version or None,
        availability_zone=s.availability_zone or None)


def _limits(limits):
    numa = limits.get('numa_topology')
    if isinstance(numa, dict):
        limits['numa_topology'] = (
            objects.NUMATopologyLimits.obj_from_primitive(numa))
    return objects.SchedulerLimits.from_dict(limits)


def ignoring(spec, hosts):
    """The primitive with more ignored hosts."""
    spec = copy.deepcopy(spec)
    data = spec['nova_object.data']
    data['ignore_hosts'] = sorted(
        set(data.get('ignore_hosts') or []) | set(hosts))
    return spec


def nova_exception(r, group):
    """Nova's exception for a refusal; see README.md for the table."""
    if r.kind == 'NO_VALID_HOST':
        LOG.info('No valid host: %s', r.message)
        return exception.NoValidHost(reason=_reason(r, group.reasons))
    if r.kind == 'INVALID_REQUEST':
        # Nova's conductor undoes an operation for NoValidHost only.
        paths = '; '.join('%s: %s' % f for f in r.fields) or r.message
        LOG.error('cellgate cannot honour the request: %s', paths)
        return exception.NoValidHost(
            reason='The request cannot be honoured: %s' % paths)
    if r.kind == 'ALREADY_EXISTS':
        return exception.AllocationUpdateFailed(
            consumer_uuid=r.metadata.get('consumer_uuid', 'unknown'),
            error=r.message)
    if r.repeatable or r.code == 'DEADLINE_EXCEEDED':
        LOG.error('cellgate gave no answer within %s s: %s', group.timeout, r)
        return messaging.MessagingTimeout(
            'cellgate gave no answer within %s s: %s' % (group.timeout, r))
    LOG.error('cellgate failed: %s', r)
    return messaging.RemoteError(r.kind or r.code, r.message)


def _reason(r, tell):
    reason = 'There are not enough hosts available.'
    detail = r.no_valid_host or {}
    if tell == 'none':
        return reason
    words = []
    for reject in detail.get('rejects', ()):
        word = reject['filter']
        if reject['detail']:
            word += '(%s)' % reject['detail']
        if tell == 'counts':
            word = '%d %s' % (reject['hosts'], word)
        words.append(word)
    if tell == 'counts':
        reason += ' Of %d hosts:' % detail.get('hosts', 0)
    elif words:
        reason += ' Rejected by'
    return ('%s %s' % (reason, ', '.join(words))).rstrip(' :')
