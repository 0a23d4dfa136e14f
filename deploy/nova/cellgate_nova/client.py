# SPDX-License-Identifier: Apache-2.0
"""SchedulerQueryClient, with cellgate behind select_destinations."""

import time

from oslo_log import log as logging
from oslo_serialization import jsonutils
from oslo_utils import uuidutils

from cellgate_nova import answer as answers
from cellgate_nova import claims
from cellgate_nova import options
from cellgate_nova import refusal
from cellgate_nova import request
from cellgate_nova import schema
from cellgate_nova import transport as transports
from nova.compute import utils as compute_utils
import nova.conf
from nova import exception
from nova.objects import fields as fields_obj
from nova import rpc
from nova.scheduler.client import query
from nova.scheduler import utils as scheduler_utils

LOG = logging.getLogger(__name__)

NovaQueryClient = query.SchedulerQueryClient

# Seconds that a move waits until the claim of an earlier move is confirmed or
# ends (longer than agents take to read the instances of their hosts), and
# between its attempts.
_SETTLE, _PAUSE = 15.0, 1.0

_transport = None


def install(conf=None):
    """See cellgate_nova.install."""
    global _transport
    group = options.register(conf or nova.conf.CONF)
    _transport = transports.Transport(group)
    query.SchedulerQueryClient = CellgateQueryClient
    moved = claims.Claims(_transport, time.monotonic)

    def claim_resources(ctx, client, spec_obj, instance_uuid, alloc_req,
                        allocation_request_version=None):
        """Reschedules: the conductor claims an alternate."""
        if not (scheduler_utils.request_is_rebuild(spec_obj) or
                moved.move_to_alternate(instance_uuid, alloc_req,
                                        group.claim_ttl)):
            return False
        if not group.write_placement_allocations:
            return True
        return claims.nova_claim_resources(
            ctx, client, spec_obj, instance_uuid, alloc_req,
            allocation_request_version)

    scheduler_utils.claim_resources = claim_resources


def uninstall():
    query.SchedulerQueryClient = NovaQueryClient
    scheduler_utils.claim_resources = claims.nova_claim_resources


class CellgateQueryClient(NovaQueryClient):
    """Nova's client whose select_destinations asks cellgate.

    The casts to schedulers (update_aggregates and the like) stay Nova's: the
    schedulers that still run, or none, hear them.
    """

    def __init__(self, transport=None, now=time.monotonic):
        super().__init__()
        self._conf = nova.conf.CONF
        options.check(self._conf.cellgate)
        self._transport = transport or _transport
        self._claims = claims.Claims(self._transport, now)
        self._now = now
        self._notifier = rpc.get_notifier('scheduler')

    def select_destinations(self, context, spec_obj, instance_uuids,
                            return_objects=False, return_alternates=False):
        self._notify(context, spec_obj, 'start')
        selections = self._select(
            context, spec_obj, instance_uuids,
            self._conf.scheduler.max_attempts - 1
            if return_objects and return_alternates else 0)
        self._notify(context, spec_obj, 'end')
        if return_objects:
            return selections
        return jsonutils.to_primitive([s[0].to_dict() for s in selections])

    def _select(self, context, spec_obj, instance_uuids, alternates):
        group = self._conf.cellgate
        deadline = self._now() + group.timeout
        dry_run = not instance_uuids  # a caller older than Pike: claims nothing
        uuids = instance_uuids or [
            uuidutils.generate_uuid() for _ in range(spec_obj.num_instances)]
        spec = request.primitive(spec_obj)
        refused = []
        while True:
            found = self._ask(context, spec_obj, spec, uuids, alternates,
                              dry_run, deadline)
            if not group.write_placement_allocations or dry_run:
                break
            try:
                claims.write_allocations(context, spec_obj, found)
                break
            except claims.PlacementRefused as e:
                self._claims.release(found)
                LOG.warning('%s; cellgate and Placement disagree', e)
                refused.append(e.host)
                if len(refused) >= group.placement_attempts:
                    raise exception.NoValidHost(
                        reason='There are not enough hosts available. '
                               '%s.' % e)
                spec = answers.ignoring(request.primitive(spec_obj), refused)
            except Exception:
                self._claims.release(found)
                raise
        if group.confirm == 'conductor':
            self._claims.confirm(found)
        return answers.selections(found)

    def _ask(self, context, spec_obj, spec, uuids, alternates, dry_run,
             deadline):
        """cellgate's answer, or Nova's exception."""
        group = self._conf.cellgate
        operation = ('REBUILD' if scheduler_utils.request_is_rebuild(spec_obj)
                     else '')
        given_back = 0
        settled = self._now() + _SETTLE
        while True:
            fields = request.build(context, spec, uuids, alternates,
                                   group.claim_ttl, operation)
            if dry_run:
                fields['dry_run'] = True
            try:
                found = self._transport.call(schema.SELECT, fields, deadline)
                LOG.info('cellgate decided %(decision)s for %(n)d '
                         'instance(s)', {'decision': found.decision_id,
                                         'n': len(uuids)})
                return found
            except refusal.Refusal as r:
                if r.kind == 'ALREADY_EXISTS':
                    # As in Nova, where allocations of the instance are what
                    # tells a move from a build.
                    if (given_back < len(uuids) and
                            self._claims.release_pending(
                                r, request.prefix(context))):
                        given_back += 1
                        continue
                    if len(uuids) == 1 and not operation:
                        operation = 'MOVE'
                        continue
                    # Nova begins no move before the last one has ended. So a
                    # claim that stays pending is of a move that failed.
                    if operation == 'MOVE' and r.of_pending_claim:
                        if self._now() < settled:
                            time.sleep(_PAUSE)
                            continue
                        if (given_back < len(uuids) and
                                self._claims.release_pending(r)):
                            given_back += 1
                            continue
                raise answers.nova_exception(r, group)

    def _notify(self, context, spec_obj, phase):
        """What Nova's scheduler notifies."""
        self._notifier.info(
            context, 'scheduler.select_destinations.' + phase,
            {'request_spec': spec_obj.to_legacy_request_spec_dict()})
        compute_utils.notify_about_scheduler_action(
            context=context, request_spec=spec_obj,
            action=fields_obj.NotificationAction.SELECT_DESTINATIONS,
            phase=phase)
