# SPDX-License-Identifier: Apache-2.0
"""The claims behind an answer: given back, confirmed, written to Placement."""

import json

from oslo_log import log as logging

from cellgate_nova import refusal
from cellgate_nova import schema
from nova.scheduler.client import report
from nova.scheduler import utils as scheduler_utils

LOG = logging.getLogger(__name__)

# Seconds for giving back and confirming: leases and agents do it otherwise.
_AFTERWARDS = 5.0


# Nova's own; install() puts Claims.move_to_alternate before it.
nova_claim_resources = scheduler_utils.claim_resources


class PlacementRefused(Exception):
    """Placement has no room on the host that cellgate chose."""

    def __init__(self, instance_uuid, host):
        super().__init__('Placement refused host %s for instance %s' % (
            host, instance_uuid))
        self.host = host


class Claims(object):

    def __init__(self, transport, now):
        self._transport = transport
        self._now = now

    def release(self, answer):
        """Give back what an answer claimed; what cannot be reached expires."""
        for d in answer.destinations:
            if d.selected.claimed:
                self._afterwards(schema.RELEASE, d, 'given back')

    def confirm(self, answer):
        for d in answer.destinations:
            if d.selected.claimed:
                self._afterwards(schema.CONFIRM, d, 'confirmed')

    def _afterwards(self, method, d, what):
        try:
            self._transport.call(method, {
                'consumer_uuid': d.instance_uuid,
                'claim_id': d.selected.claim_id,
                'cell': d.selected.cell,
            }, deadline=self._now() + _AFTERWARDS)
        except refusal.Refusal as r:
            LOG.warning(
                'Claim %(claim)s of instance %(instance)s in cell %(cell)s '
                'could not be %(what)s; it ends with its lease: %(error)s',
                {'claim': d.selected.claim_id, 'instance': d.instance_uuid,
                 'cell': d.selected.cell, 'what': what, 'error': r})

    def release_pending(self, r, request_prefix=''):
        """Release the claim that an ALREADY_EXISTS names, if it is pending
        and of a request whose id has this prefix. Returns whether it ended."""
        claim = r.metadata
        if not r.of_pending_claim or not claim.get(
                'claim_request_id', '').startswith(request_prefix):
            return False
        try:
            self._transport.call(
                schema.RELEASE,
                {k: claim[k] for k in ('consumer_uuid', 'claim_id', 'cell')},
                deadline=self._now() + _AFTERWARDS)
        except refusal.Refusal as e:
            return e.kind == 'NOT_FOUND'  # it ended meanwhile
        return True

    def move_to_alternate(self, instance_uuid, alloc_req, claim_ttl):
        """Put the instance's claim on the host of an allocation request: a
        build or a move that failed goes on to an alternate. False when the
        host has no room left, or rejects the claim. Without a claim, or out
        of reach of cellgate, the instance goes on all the same: its host's
        agent will report it."""
        # Any provider of the alternate's says which it is; gateways that are
        # older know the root alone.
        root = alloc_req.get('mappings', {}).get('')
        host = (root or sorted(alloc_req['allocations']))[0]
        deadline = self._now() + _AFTERWARDS
        try:
            found = self._transport.call(
                schema.GET_CLAIM, {'consumer_uuid': instance_uuid},
                deadline=deadline)
            claim = found.claim
            if found.other_claim.moves_claim_id == claim.claim_id:
                claim = found.other_claim  # of a move; its source stays
            self._transport.call(schema.ALTERNATE, {
                'consumer_uuid': instance_uuid, 'claim_id': claim.claim_id,
                'cell': claim.cell, 'host_uuid': host,
                'claim_ttl': '%ds' % claim_ttl}, deadline=deadline)
        except refusal.Refusal as r:
            if r.kind in ('NO_VALID_HOST', 'CLAIM_REJECTED'):
                LOG.info('Alternate %(host)s of instance %(instance)s has no '
                         'room: %(why)s', {'host': host, 'why': r.message,
                                           'instance': instance_uuid})
                return False
            LOG.warning(
                'The claim of instance %(instance)s is not on its alternate '
                '%(host)s: %(error)s', {'instance': instance_uuid,
                                        'host': host, 'error': r})
        return True


def write_allocations(context, spec_obj, answer):
    """Write the allocations of an answer to Placement, as Nova's scheduler
    does. All or none: raises PlacementRefused, or what Nova's client raises,
    with those of this call deleted again."""
    client = report.report_client_singleton()
    elevated = context.elevated()
    written = []
    try:
        for d in answer.destinations:
            s = d.selected
            if not s.allocation_request:
                continue  # a rebuild: nothing is claimed
            if not nova_claim_resources(
                    elevated, client, spec_obj, d.instance_uuid,
                    json.loads(s.allocation_request),
                    s.allocation_request_version):
                raise PlacementRefused(d.instance_uuid, s.service_host)
            written.append(d.instance_uuid)
    except Exception:
        delete_allocations(elevated, client, written)
        raise


def delete_allocations(context, client, instance_uuids):
    for uuid in instance_uuids:
        try:
            client.delete_allocation_for_instance(context, uuid, force=True)
        except Exception:
            LOG.exception('The allocations of instance %s stay in Placement; '
                          'nova-manage placement audit finds them', uuid)
