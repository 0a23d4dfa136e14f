# SPDX-License-Identifier: Apache-2.0
"""What the tests of the plug-in share: Nova as its conductor has it."""

import logging
import os
import unittest
import uuid

import nova.cmd  # noqa: F401  patches for eventlet first, as nova-conductor does

import nova.conf
from nova import config
from nova import context
from nova import objects
from nova import rpc

import cellgate_nova
from nova.scheduler.client import query

CONF = nova.conf.CONF
PROJECT = '5d2a7c3e9b1f4a0680c1d2e3f4a5b6c2'
USER = '9f0e1d2c3b4a59687766554433221100'


def start():
    """What nova.cmd.conductor.main does, without a message queue."""
    if rpc.TRANSPORT is not None:
        return
    config.parse_args(['nova-conductor', '--config-file', os.devnull])
    CONF.set_override('transport_url', 'fake://')
    logging.getLogger().setLevel(logging.ERROR)
    objects.register_all()
    rpc.init(CONF)
    cellgate_nova.install()


class Base(unittest.TestCase):

    def setUp(self):
        start()
        self.conf(endpoints=[os.environ['CELLGATE_GRPC']], timeout=300,
                  write_placement_allocations=False)
        self.context = context.RequestContext(
            user_id=USER, project_id=PROJECT,
            request_id='req-' + str(uuid.uuid4()))

    def conf(self, **values):
        for name, value in values.items():
            CONF.set_override(name, value, group='cellgate')
            self.addCleanup(CONF.clear_override, name, group='cellgate')

    def client(self):
        """The client as the conductor's manager makes it."""
        return query.SchedulerQueryClient()

    def select(self, spec, uuids, alternates=False, **kwargs):
        return self.client().select_destinations(
            self.context, spec, uuids, return_objects=True,
            return_alternates=alternates, **kwargs)


def uuids(n):
    return [str(uuid.uuid4()) for _ in range(n)]


def flavor(vcpus=1, memory_mb=512, root_gb=1, **extra_specs):
    return objects.Flavor(
        id=1, name='m1.%d' % memory_mb, memory_mb=memory_mb, vcpus=vcpus,
        root_gb=root_gb, ephemeral_gb=0, flavorid=str(uuid.uuid4()), swap=0,
        rxtx_factor=1.0, vcpu_weight=0, disabled=False, is_public=True,
        extra_specs={k.replace('__', ':'): v for k, v in extra_specs.items()},
        description=None)


def image(**properties):
    return objects.ImageMeta(
        id=str(uuid.uuid4()), name='ubuntu', status='active', size=2361393152,
        container_format='bare', disk_format='qcow2', min_ram=0, min_disk=0,
        properties=objects.ImageMetaProps(**properties))


def group(policy, members, hosts=()):
    return objects.InstanceGroup(
        id=1, uuid=str(uuid.uuid4()), name='web', user_id=USER,
        project_id=PROJECT, policy=policy, rules={}, members=list(members),
        hosts=list(hosts))


def spec(instances, **fields):
    """A RequestSpec as RequestSpec.from_components leaves it for a build."""
    values = dict(
        image=image(), flavor=flavor(), project_id=PROJECT, user_id=USER,
        num_instances=len(instances), instance_uuid=instances[0],
        numa_topology=None, availability_zone=None, ignore_hosts=None,
        force_hosts=None, force_nodes=None, requested_destination=None,
        retry=None, limits=objects.SchedulerLimits(), instance_group=None,
        scheduler_hints={}, is_bfv=False, requested_resources=[],
        pci_requests=objects.InstancePCIRequests(
            requests=[], instance_uuid=instances[0]),
        security_groups=objects.SecurityGroupList(objects=[]),
        request_level_params=objects.RequestLevelParams())
    values.update(fields)
    return objects.RequestSpec(**values)
