# SPDX-License-Identifier: Apache-2.0
"""Nova's own conductor behind the plug-in."""

import os
import subprocess
import sys
import tempfile
import threading
from unittest import mock

from keystoneauth1 import loading
from nova.conductor import manager
from nova import exception
from nova import objects

import cellgate_nova
from cellgate_nova import client
import plugintest
from plugintest import CONF
from plugintest import flavor
from plugintest import spec
from plugintest import uuids
from nova.scheduler.client import query

# What a conductor needs to start where nothing else of OpenStack runs.
NOVA_CONF = '''
[DEFAULT]
transport_url = fake://
host = conductor1
state_path = {dir}
[database]
connection = sqlite:///{dir}/cell.sqlite
[api_database]
connection = sqlite:///{dir}/api.sqlite
[conductor]
workers = 1
[oslo_concurrency]
lock_path = {dir}
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
[cellgate]
endpoints = {endpoints}
'''

# What `nova-manage db sync` and `nova-manage api_db sync` do, in one process.
SYNC = '''
import sys
from nova import config
from nova.db import migration
config.parse_args(['nova-manage', '--config-file', sys.argv[1]])
for database in 'main', 'api':
    migration.db_sync(database=database)
'''


class Manager(plugintest.Base):

    def setUp(self):
        super().setUp()
        CONF.register_opts(loading.get_auth_plugin_conf_options('none'),
                           group='placement')
        CONF.set_override('auth_type', 'none', group='placement')
        CONF.set_override('endpoint_override', 'http://127.0.0.1:1',
                          group='placement')
        self.manager = manager.ComputeTaskManager()

    def test_it_has_our_client(self):
        self.assertIs(client.CellgateQueryClient,
                      type(self.manager.query_client))

    def test_it_schedules(self):
        # What it would read of the API database: the instance's server group.
        self.enterContext(mock.patch(
            'nova.scheduler.utils.setup_instance_group'))
        ids = uuids(2)
        lists = self.manager._schedule_instances(
            self.context, spec(ids), ids, return_alternates=True)
        self.assertEqual([3, 3], [len(one) for one in lists])
        self.assertIs(objects.Selection, type(lists[0][0]))
        ids = uuids(1)
        with self.assertRaises(exception.NoValidHost):
            self.manager._schedule_instances(
                self.context, spec(ids, flavor=flavor(vcpus=4096)), ids)

    def test_and_back(self):
        cellgate_nova.uninstall()
        try:
            self.assertIs(client.NovaQueryClient, query.SchedulerQueryClient)
        finally:
            cellgate_nova.install()


class Process(plugintest.Base):

    def run_conductor(self, directory, endpoints, databases=True):
        path = os.path.join(directory, 'nova.conf')
        with open(path, 'w') as f:
            f.write(NOVA_CONF.format(dir=directory, endpoints=endpoints))
        if databases:
            subprocess.run([sys.executable, '-W', 'ignore', '-c', SYNC, path],
                           check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        return subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-m', 'cellgate_nova',
             'nova-conductor', '--config-file', path], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def until(self, p, words):
        """Read what a process logs until it says words, or ends."""
        late = threading.Timer(60, p.kill)
        late.start()
        seen = []
        try:
            for line in p.stdout:
                seen.append(line)
                if words in line:
                    return
            self.fail('no %r in\n%s' % (words, ''.join(seen)))
        finally:
            late.cancel()
            p.kill()
            p.wait()
            p.stdout.close()

    def test_nova_conductor_starts(self):
        with tempfile.TemporaryDirectory() as d:
            self.until(self.run_conductor(d, os.environ['CELLGATE_GRPC']),
                       'Starting conductor node')

    def test_nova_conductor_refuses_what_cannot_work(self):
        with tempfile.TemporaryDirectory() as d:
            self.until(self.run_conductor(d, 'gw1', databases=False),
                       "[cellgate] endpoints: 'gw1' is not host:port")
