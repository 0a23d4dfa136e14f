# SPDX-License-Identifier: Apache-2.0
"""Real RequestSpecs in, real Selections out. CELLGATE_GRPC: `cellgate dev`."""

import json
import os
import random
import subprocess
import sys
import uuid

from nova import exception
from nova import objects
from nova.scheduler import utils as scheduler_utils
import requests

from cellgate_nova import answer
from cellgate_nova import schema
import plugintest
from plugintest import CONF
from plugintest import flavor
from plugintest import group
from plugintest import image
from plugintest import spec
from plugintest import uuids


class Requests(plugintest.Base):

    def check(self, lists, instances, alternates):
        """Every field of every Selection, with Nova's own classes."""
        self.assertEqual(len(instances), len(lists))
        for one in lists:
            self.assertEqual(1 + alternates, len(one))
            self.assertEqual(1, len({s.cell_uuid for s in one}))
            self.assertEqual(len(one), len({s.service_host for s in one}))
            for s in one:
                self.assertIs(objects.Selection, type(s))
                for name in objects.Selection.fields:
                    self.assertTrue(s.obj_attr_is_set(name), name)
                self.assertIs(objects.SchedulerLimits, type(s.limits))
                uuid.UUID(s.compute_node_uuid), uuid.UUID(s.cell_uuid)
                self.assertEqual('1.36', s.allocation_request_version)
                self.assertIn(s.availability_zone, ('az1', 'az2', 'az3',
                                                    'nova'))
                asked = json.loads(s.allocation_request)
                self.assertIn(s.compute_node_uuid, asked['allocations'])
                self.assertEqual({'': [s.compute_node_uuid]},
                                 asked['mappings'])
                # It travels: the conductor sends it to the cell.
                again = objects.Selection.obj_from_primitive(
                    s.obj_to_primitive())
                self.assertEqual(s.to_dict(), again.to_dict())

    def test_a_hundred(self):
        rng = random.Random(1)
        placed = 0
        hosts = []
        while placed < 100:
            kind = placed % 10
            n = 3 if kind in (3, 4) else 1
            ids = uuids(n)
            fields, alternates = {}, kind in (0, 1, 3)
            if kind == 1:
                fields['flavor'] = flavor(rng.choice((1, 2)), 1024, 5)
            elif kind == 2:
                fields['image'] = image(hw_disk_bus='virtio',
                                        os_distro='debian')
            elif kind == 4:
                fields['instance_group'] = group('anti-affinity', ids)
            elif kind == 5 and hosts:
                fields['ignore_hosts'] = list(hosts[-5:])
            elif kind == 6:
                fields['availability_zone'] = rng.choice(('az1', 'az2'))
            elif kind == 7 and hosts:
                fields['requested_destination'] = objects.Destination(
                    host=hosts[-1])
            elif kind == 8:
                fields['flavor'] = flavor(trait__CUSTOM_GOLD='required')
            elif kind == 9 and hosts:
                fields['force_hosts'] = [hosts[-1]]
            lists = self.select(spec(ids, **fields), ids, alternates)
            self.check(lists, ids, CONF.scheduler.max_attempts - 1
                       if alternates else 0)
            chosen = [one[0].service_host for one in lists]
            if kind == 4:
                self.assertEqual(3, len(set(chosen)))
            if kind == 5:
                self.assertNotIn(chosen[0], fields.get('ignore_hosts', ()))
            if kind == 6:
                self.assertEqual(fields['availability_zone'],
                                 lists[0][0].availability_zone)
            if kind in (7, 9):
                self.assertEqual(hosts[-1], chosen[0])
            hosts += chosen
            placed += 1

    def test_old_style(self):
        ids = uuids(2)
        got = self.client().select_destinations(self.context, spec(ids), ids)
        self.assertEqual(2, len(got))
        for one in got:
            self.assertEqual({'host', 'nodename', 'limits'}, set(one))

    def test_limits(self):
        """What the compute claims by, as the filters of Nova set it."""
        networks = objects.NetworkMetadata(physnets={'p1', 'p2'},
                                           tunneled=True)
        numa = objects.NUMATopologyLimits(
            cpu_allocation_ratio=16.0, ram_allocation_ratio=1.5,
            network_metadata=networks)

        def primitive(name, version, data):
            return {'nova_object.name': name, 'nova_object.version': version,
                    'nova_object.namespace': 'nova', 'nova_object.data': data}
        # As gateway/answerlimits_test.go has it.
        answered = schema.build('cellgate.v1.Selection', {
            'compute_node_uuid': uuids(1)[0], 'cell_uuid': uuids(1)[0],
            'limits': {
                'vcpu': 64, 'memory_mb': 12289, 'disk_gb': 126,
                'numa_topology': primitive('NUMATopologyLimits', '1.1', {
                    'cpu_allocation_ratio': 16, 'ram_allocation_ratio': 1.5,
                    'network_metadata': primitive('NetworkMetadata', '1.0', {
                        'physnets': ['p1', 'p2'], 'tunneled': True})})}})
        got = answer._selection(answered).limits
        self.assertEqual((64, 12289, 126),
                         (got.vcpu, got.memory_mb, got.disk_gb))
        self.assertIs(objects.NUMATopologyLimits, type(got.numa_topology))
        self.assertIs(float, type(got.numa_topology.cpu_allocation_ratio))

        def data(limits):
            limits.obj_reset_changes(recursive=True)
            text = json.loads(json.dumps(limits.obj_to_primitive()))
            met = text['nova_object.data']['network_metadata']
            met['nova_object.data']['physnets'].sort()
            return text
        self.assertEqual(data(numa), data(got.numa_topology))
        # The compute is sent them in the filter properties.
        properties = {}
        scheduler_utils.populate_filter_properties(
            properties, answer._selection(answered))
        self.assertEqual({'vcpu', 'memory_mb', 'disk_gb', 'numa_topology'},
                         set(properties['limits']))
        none = answer._selection(schema.build('cellgate.v1.Selection', {}))
        self.assertEqual({}, none.limits.to_dict())

    def test_no_instances_named_claims_nothing(self):
        got = self.client().select_destinations(
            self.context, spec(uuids(1)), None)
        self.assertEqual(1, len(got))

    def test_max_attempts_is_the_number_of_hosts(self):
        CONF.set_override('max_attempts', 5, group='scheduler')
        self.addCleanup(CONF.clear_override, 'max_attempts', group='scheduler')
        ids = uuids(1)
        self.check(self.select(spec(ids), ids, True), ids, 4)
        CONF.set_override('max_attempts', 1, group='scheduler')
        ids = uuids(1)
        self.check(self.select(spec(ids), ids, True), ids, 0)

    def test_casts_stay_novas(self):
        client = self.client()
        cast = []
        client.scheduler_rpcapi = type('Api', (), {
            '__getattr__': lambda self, name: lambda *a: cast.append(name)})()
        client.update_aggregates(self.context, [])
        client.delete_aggregate(self.context, None)
        client.update_instance_info(self.context, 'h', None)
        client.delete_instance_info(self.context, 'h', 'u')
        client.sync_instance_info(self.context, 'h', [])
        self.assertEqual(
            ['update_aggregates', 'delete_aggregate', 'update_instance_info',
             'delete_instance_info', 'sync_instance_info'], cast)


class NoHost(plugintest.Base):

    def reason(self, **fields):
        ids = uuids(1)
        with self.assertRaises(exception.NoValidHost) as caught:
            self.select(spec(ids, **fields), ids)
        return caught.exception.format_message()

    def test_reasons(self):
        huge = flavor(vcpus=4096)
        nova = ('No valid host was found. '
                'There are not enough hosts available.')
        got = self.reason(flavor=huge)
        self.assertTrue(got.startswith(nova + ' Rejected by '), got)
        self.assertIn('ResourceFilter(VCPU)', got)
        self.assertNotRegex(got, r'\d')
        self.conf(reasons='none')
        self.assertEqual(nova, self.reason(flavor=huge))
        self.conf(reasons='counts')
        self.assertRegex(self.reason(flavor=huge),
                         r'Of \d+ hosts: .*\d+ ResourceFilter\(VCPU\)')

    def test_what_cannot_be_honoured(self):
        with self.assertRaises(exception.NoValidHost) as caught:
            self.select(spec(uuids(1)), ['one'])
        self.assertTrue(caught.exception.format_message().startswith(
            'No valid host was found. The request cannot be honoured: '
            'instance_uuids[0]: '), caught.exception)


class Again(plugintest.Base):

    def ask(self, seed, ids, group_uuid):
        """The same request from another process: another conductor."""
        env = dict(os.environ, PYTHONHASHSEED=seed)
        out = subprocess.run(
            [sys.executable, __file__, self.context.request_id, group_uuid] +
            ids, env=env, stdout=subprocess.PIPE, check=True).stdout
        return json.loads(out.splitlines()[-1])

    def test_a_message_delivered_again(self):
        ids, g = uuids(3), str(uuid.uuid4())
        first = self.ask('1', ids, g)
        self.assertEqual(first, self.ask('2', ids, g))
        self.assertEqual(3, len({h for h, _ in first}))

    def test_another_attempt_of_the_same_api_request(self):
        # A live migration that goes on to the next host: the claim of the
        # attempt before is given back.
        ids = uuids(1)
        first = self.select(spec(ids), ids)[0][0].service_host
        second = self.select(spec(ids, ignore_hosts=[first]), ids)
        self.assertNotEqual(first, second[0][0].service_host)

    def test_a_move_of_an_instance_that_is_placed(self):
        # A resize, as the conductor asks for it: another API request.
        ids = uuids(1)
        first = self.select(spec(ids), ids)[0][0].service_host
        self.context.request_id = 'req-' + str(uuid.uuid4())
        second = self.select(
            spec(ids, ignore_hosts=[first], flavor=flavor(2, 1024)), ids,
            True)[0]
        self.assertEqual(3, len(second))
        self.assertNotIn(first, [s.service_host for s in second])

    def test_a_rebuild_stays_and_claims_nothing(self):
        ids = uuids(1)
        at = self.select(spec(ids), ids)[0][0]
        again = self.select(spec(
            ids, scheduler_hints={'_nova_check_type': ['rebuild']},
            requested_destination=objects.Destination(
                host=at.service_host, node=at.nodename)), ids)[0][0]
        self.assertEqual(at.service_host, again.service_host)
        self.assertIsNone(again.allocation_request)

    def test_a_build_goes_on_to_an_alternate(self):
        # What the cell's conductor does when a build failed on its host.
        ids = uuids(1)
        asked = spec(ids)
        at, other = self.select(asked, ids, True)[0][:2]

        def claim(selection, instance=ids[0]):
            return scheduler_utils.claim_resources(
                self.context, None, asked, instance,
                json.loads(selection.allocation_request),
                selection.allocation_request_version)

        self.assertTrue(claim(other))
        got = requests.get('http://%s/v1/claims/%s' % (
            os.environ['CELLGATE_HTTP'], ids[0])).json()['claim']
        self.assertEqual((other.service_host, 'PENDING'),
                         (got['service_host'], got['state']))
        # One whose claim has ended goes on with a warning.
        with self.assertLogs('cellgate_nova.claims', 'WARNING'):
            self.assertTrue(claim(other, uuids(1)[0]))

    def test_a_move_goes_on_to_an_alternate(self):
        ids = uuids(1)
        source = self.select(spec(ids), ids)[0][0]
        self.context.request_id = 'req-' + str(uuid.uuid4())
        asked = spec(ids)
        _, other = self.select(asked, ids, True)[0][:2]
        self.assertTrue(scheduler_utils.claim_resources(
            self.context, None, asked, ids[0],
            json.loads(other.allocation_request),
            other.allocation_request_version))
        got = requests.get('http://%s/v1/claims/%s' % (
            os.environ['CELLGATE_HTTP'], ids[0])).json()
        self.assertEqual(
            (source.service_host, other.service_host),
            (got['claim']['service_host'], got['other_claim']['service_host']))

    def test_another_build_of_the_same_instance(self):
        # A claim is there and is another request's: as in Nova a move, and
        # never a second claim beside the first for a build.
        ids = uuids(1)
        self.select(spec(ids), ids)
        self.context.request_id = 'req-' + str(uuid.uuid4())
        two = [ids[0]] + uuids(1)
        with self.assertRaises(exception.AllocationUpdateFailed):
            self.select(spec(two), two)


def again(request_id, group_uuid, *ids):
    case = Again()
    case.setUp()
    case.context.request_id = request_id
    g = group('anti-affinity', set(ids) | {group_uuid})
    g.uuid = group_uuid
    # A fixed image and flavor: what the message holds.
    fields = dict(image=image(hw_disk_bus='virtio'), flavor=flavor())
    fields['image'].id = fields['flavor'].flavorid = group_uuid
    lists = case.select(spec(list(ids), instance_group=g, **fields),
                        list(ids), True)
    print(json.dumps([[one[0].service_host,
                       [a.service_host for a in one[1:]]] for one in lists]))


if __name__ == '__main__':
    again(*sys.argv[1:])
