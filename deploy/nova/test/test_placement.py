# SPDX-License-Identifier: Apache-2.0
"""What the plug-in writes to Placement: OpenStack's own, with the hosts of the
`cellgate dev` at CELLGATE_GRPC and CELLGATE_HTTP. (Skipped without
python3-placement.)"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading as ks_loading
from nova import exception
from nova.scheduler.client import report
import requests

import plugintest
from plugintest import CONF
from plugintest import flavor
from plugintest import spec
from plugintest import uuids

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = 12


@unittest.skipUnless(importlib.util.find_spec('placement'),
                     'python3-placement is not installed')
class Allocations(plugintest.Base):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.server = subprocess.Popen(
            [sys.executable, os.path.join(HERE, 'realplacement.py'),
             cls.directory.name], stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL)
        cls.url = 'http://127.0.0.1:' + cls.server.stdout.readline().strip()
        cls.cellgate = 'http://' + os.environ['CELLGATE_HTTP']
        hosts = requests.get(cls.cellgate + '/v1/hosts', params={
            'cell': 'cell1', 'page_size': HOSTS}).json()['hosts']
        cls.hosts = [h['service_host'] for h in hosts if h['enabled']]
        cls.nodes = {h['service_host']: h['host_uuid'] for h in hosts}
        for h in hosts:
            cls.placement('POST', '/resource_providers',
                          name=h['nodename'], uuid=h['host_uuid'])
            cls.inventories(h['host_uuid'], {
                i['resource_class']: {'total': i['total']}
                for i in h['inventories']
                if i['resource_class'] in ('VCPU', 'MEMORY_MB', 'DISK_GB')})

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.wait()
        cls.server.stdout.close()
        cls.directory.cleanup()

    @classmethod
    def placement(cls, method, path, **body):
        r = requests.request(method, cls.url + path, json=body or None, headers={
            'X-Auth-Token': 'admin',
            'OpenStack-API-Version': 'placement 1.36'})
        if r.status_code >= 300:
            raise AssertionError('%s %s: %s' % (method, path, r.text))
        return r.json() if r.content else None

    @classmethod
    def inventories(cls, provider, inventories):
        at = '/resource_providers/%s/inventories' % provider
        cls.placement(
            'PUT', at, inventories=inventories,
            resource_provider_generation=cls.placement('GET', at)[
                'resource_provider_generation'])

    def setUp(self):
        super().setUp()
        self.conf(write_placement_allocations=True)
        CONF.register_opts(ks_loading.get_auth_plugin_conf_options(
            'admin_token'), group='placement')
        for name, value in (('auth_type', 'admin_token'), ('token', 'admin'),
                            ('endpoint', self.url),
                            ('endpoint_override', self.url)):
            CONF.set_override(name, value, group='placement')
        report.PLACEMENTCLIENT = None

    def allocations(self, instance):
        return {p: a['resources'] for p, a in self.placement(
            'GET', '/allocations/' + instance)['allocations'].items()}

    def claimed(self, instance):
        r = requests.get('%s/v1/claims/%s' % (self.cellgate, instance))
        return r.json()['claim'] if r.status_code == 200 else None

    def spec(self, ids, hosts, **fields):
        """A request that the given hosts can take, whatever weighs."""
        return spec(ids, ignore_hosts=None, force_hosts=list(hosts), **fields)

    def apart(self, ids, hosts):
        """As spec, with every instance on a host of its own. (Forced hosts
        pass no group filter unless a check is asked for.)"""
        return self.spec(
            ids, hosts, scheduler_hints={'_nova_check_type': ['x']},
            instance_group=plugintest.group('anti-affinity', ids))

    def preferred(self, n, hosts):
        """What cellgate chooses for n instances on hosts of their own, when
        Placement is not asked."""
        ids = uuids(n)
        CONF.set_override('write_placement_allocations', False,
                          group='cellgate')
        lists = self.select(self.apart(ids, hosts), ids)
        CONF.set_override('write_placement_allocations', True,
                          group='cellgate')
        for instance in ids:
            requests.delete('%s/v1/claims/%s' % (self.cellgate, instance),
                            params={'claim_id': self.claimed(instance)[
                                'claim_id']}).raise_for_status()
        return [one[0].service_host for one in lists]

    def test_what_cellgate_claimed_is_allocated(self):
        ids = uuids(2)
        lists = self.select(self.spec(ids, self.hosts[:4],
                                      flavor=flavor(2, 1024, 3)), ids)
        for instance, (s,) in zip(ids, lists):
            want = {'VCPU': 2, 'MEMORY_MB': 1024, 'DISK_GB': 3}
            self.assertEqual({s.compute_node_uuid: want},
                             self.allocations(instance))
            claim = self.claimed(instance)
            self.assertEqual(want, {a['resource_class']: a['amount']
                                    for a in claim['allocations']})
            self.assertEqual('PENDING', claim['state'])

    def test_delivered_again(self):
        ids = uuids(1)
        asked = self.spec(ids, self.hosts[:4])
        first = self.select(asked, ids)[0][0]
        before = self.allocations(ids[0])
        again = self.select(asked, ids)[0][0]
        self.assertEqual(first.service_host, again.service_host)
        self.assertEqual(before, self.allocations(ids[0]))

    def test_an_evacuation_has_both_hosts(self):
        # The source's allocation stands under the instance; Nova's own client
        # doubles it.
        ids = uuids(1)
        source = self.nodes[self.hosts[0]]
        self.placement('PUT', '/allocations/' + ids[0], allocations={
            source: {'resources': {'VCPU': 1}}}, project_id=plugintest.PROJECT,
            user_id=plugintest.USER, consumer_generation=None)
        s = self.select(self.spec(ids, self.hosts[1:4]), ids)[0][0]
        self.assertEqual({source, s.compute_node_uuid},
                         set(self.allocations(ids[0])))

    def test_the_next_host_when_placement_refuses(self):
        # cellgate's choice is full in Placement: its claim goes, another
        # host comes.
        two = self.hosts[4:6]
        full, = self.preferred(1, two)
        roomy, = set(two) - {full}
        self.inventories(self.nodes[full], {'VCPU': {'total': 1}})
        ids = uuids(1)
        with self.assertLogs('cellgate_nova.client', 'WARNING') as log:
            s = self.select(self.spec(ids, two), ids)[0][0]
        self.assertIn('Placement refused host %s' % full, log.output[0])
        self.assertEqual(roomy, s.service_host)
        self.assertEqual(roomy, self.claimed(ids[0])['service_host'])
        self.assertEqual([s.compute_node_uuid],
                         list(self.allocations(ids[0])))

    def test_refused_everywhere(self):
        self.conf(placement_attempts=2)
        hosts = self.hosts[6:9]
        for h in hosts:
            self.inventories(self.nodes[h], {'VCPU': {'total': 1}})
        ids = uuids(1)
        with self.assertRaises(exception.NoValidHost) as caught:
            self.select(self.spec(ids, hosts), ids)
        self.assertIn('Placement refused host',
                      caught.exception.format_message())
        self.assertIsNone(self.claimed(ids[0]))
        self.assertEqual({}, self.allocations(ids[0]))

    def test_all_or_none(self):
        # Two instances, the second of which Placement refuses: nothing is
        # left of the first.
        self.conf(placement_attempts=1)
        two = self.hosts[9:11]
        _, bad = self.preferred(2, two)
        self.inventories(self.nodes[bad], {'VCPU': {'total': 1}})
        ids = uuids(2)
        with self.assertLogs('nova.scheduler.client.report', 'INFO') as log:
            with self.assertRaises(exception.NoValidHost):
                self.select(self.apart(ids, two), ids)
        self.assertTrue(any('Deleted allocations for instance ' + ids[0] in o
                            for o in log.output), log.output)
        for instance in ids:
            self.assertIsNone(self.claimed(instance))
            self.assertEqual({}, self.allocations(instance))

    def test_placement_is_away(self):
        CONF.set_override('endpoint_override', 'http://127.0.0.1:1',
                          group='placement')
        report.PLACEMENTCLIENT = None
        ids = uuids(1)
        with self.assertRaises(ks_exc.ClientException):
            self.select(self.spec(ids, self.hosts[:4]), ids)
        self.assertIsNone(self.claimed(ids[0]))
