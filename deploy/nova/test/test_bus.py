# SPDX-License-Identifier: Apache-2.0
"""Nova's own RPC client, unchanged, on a message bus that a gateway serves.

BUS_URL is the transport_url.
"""

import os
import unittest
import uuid

import nova.cmd  # noqa: F401  patches for eventlet first, as nova-conductor does

import nova.conf
from nova import config
from nova import context
from nova import exception
from nova import objects
from nova import rpc
from nova.scheduler import rpcapi
import oslo_messaging as messaging

CONF = nova.conf.CONF


def setUpModule():
    config.parse_args(['nova-conductor', '--config-file', os.devnull])
    CONF.set_override('transport_url', os.environ['BUS_URL'])
    objects.register_all()
    rpc.init(CONF)


def uuids(n):
    return [str(uuid.uuid4()) for _ in range(n)]


def flavor(vcpus=1, **extra_specs):
    return objects.Flavor(
        id=1, name='m1.tiny', memory_mb=512, vcpus=vcpus, root_gb=1,
        ephemeral_gb=0, flavorid='f', swap=0, rxtx_factor=1.0, vcpu_weight=0,
        disabled=False, is_public=True, extra_specs=extra_specs,
        description=None)


def spec(instance_uuid, n=1, hints=None, group=None, **kwargs):
    s = objects.RequestSpec(
        image=objects.ImageMeta(
            id=str(uuid.uuid4()), name='cirros', status='active', min_ram=0,
            min_disk=0, properties=objects.ImageMetaProps()),
        flavor=flavor(**kwargs), num_instances=n, instance_uuid=instance_uuid,
        project_id='p' * 32, user_id='u' * 32, availability_zone=None,
        numa_topology=None, instance_group=group, scheduler_hints=hints or {},
        pci_requests=objects.InstancePCIRequests(requests=[]),
        ignore_hosts=None, force_hosts=None, force_nodes=None,
        requested_destination=None, retry=None,
        limits=objects.SchedulerLimits.from_dict({}), is_bfv=False,
        requested_resources=[])
    return s


class BusTest(unittest.TestCase):

    def setUp(self):
        self.api = rpcapi.SchedulerAPI()
        self.context = context.RequestContext(
            user_id='u' * 32, project_id='p' * 32,
            request_id='req-' + str(uuid.uuid4()))

    def select(self, s, ids, alternates=True):
        return self.api.select_destinations(
            self.context, s, ids, return_objects=True,
            return_alternates=alternates)

    def test_boot_gives_selection_objects(self):
        ids = uuids(3)
        found = self.select(spec(ids[0], n=3), ids)
        self.assertEqual([3, 3, 3], [len(one) for one in found])
        for one in found:
            for s in one:
                self.assertIsInstance(s, objects.Selection)
                self.assertIsInstance(s.limits, objects.SchedulerLimits)
                self.assertIn('allocations', s.allocation_request)
                self.assertTrue(s.availability_zone)

    def test_same_request_gets_the_same_hosts(self):
        ids = uuids(1)
        s = spec(ids[0])
        one, two = self.select(s, ids), self.select(s, ids)
        self.assertEqual([h.service_host for h in one[0]],
                         [h.service_host for h in two[0]])

    def test_nothing_fits_raises_no_valid_host(self):
        ids = uuids(1)
        with self.assertRaises(exception.NoValidHost) as e:
            self.select(spec(ids[0], vcpus=4000), ids)
        self.assertIn('Rejected by', e.exception.kwargs['reason'])
        self.assertEqual(500, e.exception.code)

    def test_what_cannot_be_honoured_raises_no_valid_host(self):
        ids = uuids(1)
        with self.assertRaises(exception.NoValidHost) as e:
            self.select(spec(ids[0], **{'trait:CUSTOM_GOLD': 'maybe'}), ids)
        self.assertIn('cannot be honoured', str(e.exception))

    def test_second_request_for_an_instance_is_a_move(self):
        ids = uuids(1)
        first = self.select(spec(ids[0]), ids)
        self.context.request_id = 'req-' + str(uuid.uuid4())
        moved = spec(ids[0])
        moved.ignore_hosts = [first[0][0].service_host]
        second = self.select(moved, ids, alternates=False)
        self.assertEqual(1, len(second[0]))
        self.assertNotEqual(first[0][0].service_host, second[0][0].service_host)

    def test_rebuild_stays_on_its_host(self):
        ids = uuids(1)
        first = self.select(spec(ids[0]), ids)[0][0]
        s = spec(ids[0], hints={'_nova_check_type': ['rebuild']})
        s.requested_destination = objects.Destination(
            host=first.service_host, node=first.nodename)
        s.force_hosts, s.force_nodes = [first.service_host], [first.nodename]
        found = self.select(s, ids, alternates=False)
        self.assertEqual(first.service_host, found[0][0].service_host)

    def test_anti_affinity(self):
        ids = uuids(3)
        group = objects.InstanceGroup(
            uuid=str(uuid.uuid4()), policy='anti-affinity', members=ids,
            hosts=[], project_id='p' * 32, user_id='u' * 32, name='g')
        found = self.select(spec(ids[0], n=3, group=group), ids)
        self.assertEqual(3, len({one[0].service_host for one in found}))

    def test_callers_of_old_releases_get_dictionaries(self):
        for version in ('4.4', '4.3', '4.0'):
            CONF.set_override('scheduler', version, group='upgrade_levels')
            self.addCleanup(CONF.clear_override, 'scheduler',
                            group='upgrade_levels')
            ids = uuids(1)
            found = rpcapi.SchedulerAPI().select_destinations(
                self.context, spec(ids[0]), ids)
            self.assertEqual(1, len(found))
            self.assertEqual({'host', 'nodename', 'limits'}, set(found[0]))

    def test_casts_are_taken(self):
        self.api.update_aggregates(self.context, [objects.Aggregate(
            id=1, uuid=str(uuid.uuid4()), name='a', hosts=[], metadata={})])
        self.api.delete_aggregate(self.context, objects.Aggregate(
            id=1, uuid=str(uuid.uuid4()), name='a', hosts=[], metadata={}))
        self.api.sync_instance_info(self.context, 'h', uuids(2))
        self.api.delete_instance_info(self.context, 'h', uuids(1)[0])

    def test_ping(self):
        from nova import baserpc
        self.assertEqual({'service': 'scheduler', 'arg': 'x'},
                         baserpc.BaseAPI('scheduler').ping(self.context, 'x'))

    def test_unknown_method_and_version(self):
        for version, method, raised in (
                ('4.5', 'nothing', 'NoSuchMethod'),
                ('5.0', 'select_destinations', 'UnsupportedVersion')):
            with self.assertRaises(messaging.RemoteError) as e:
                rpc.get_client(messaging.Target(
                    topic='scheduler', version=version)).prepare(
                        version=version).call(self.context, method)
            self.assertEqual(raised, e.exception.exc_type)
