"""Run Placement's own gabbi suite against a server: run_gabbi.py URL DIR.

DIR is placement/tests/functional of openstack/placement. Its fixtures make objects in a database; here the modules
that they import make the same objects through the API. Prints each test that fails, and the counts. A file whose
subject the server does not have is left out, a single test by its name in LEFT_OUT.
"""
import glob
import importlib.util
import json
import os
import re
import sys
import types
import unittest
import urllib.request

import os_resource_classes  # noqa: before its needs are replaced below
import os_traits  # noqa
from gabbi import handlers, suitemaker, utils
from oslo_utils import uuidutils
from oslo_utils.fixture import uuidsentinel

URL, SUITE = sys.argv[1], sys.argv[2]

# Files, by the end of their name.
LEFT_OUT_FILES = {
    '-policy.yaml': 'policy files',
    '-legacy-rbac.yaml': 'policy files',
    '-secure-rbac.yaml': 'policy files',
    'cors.yaml': 'CORS',
}
# Single tests, by file and name.
LEFT_OUT = {
    'basic-http_bad_content_length_not_int': 'Go refuses the header in words of its own',
    'bug-1674694_404_with_other_accept': 'errors are JSON, whatever Accept says',
    'microversion_other_accept_header_bad_version': 'errors are JSON, whatever Accept says',
    'with-allocations_fail_to_delete_all_inventory': 'a text lists classes in the order of their ids',
    'with-allocations_fail_to_delete_all_inventory_1.23': 'a text lists classes in the order of their ids',
}


def call(method, path, body=None, version='1.39'):
    request = urllib.request.Request(URL + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header('X-Auth-Token', 'admin')
    request.add_header('OpenStack-API-Version', 'placement ' + version)
    if body is not None:
        request.add_header('Content-Type', 'application/json')
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
        return json.loads(text) if text else None


class Provider:
    """What test_base gives for a provider."""

    def __init__(self, uuid):
        self.uuid = uuid
        self.path = '/resource_providers/' + uuid

    def set_aggregates(self, uuids):
        call('PUT', self.path + '/aggregates', list(uuids), '1.1')


class Consumer:
    def __init__(self, uuid, user, project):
        self.uuid, self.user, self.project = uuid, user, project


class Owner:
    """A user or a project."""

    def __init__(self, context, external_id=None):
        self.id = external_id

    def create(self):
        pass


class ResourceClass:
    def __init__(self, context, name):
        self.name = name

    def create(self):
        call('PUT', '/resource_classes/' + self.name)


def make_test_base():
    tb = types.ModuleType('test_base')

    def create_provider(context, name, *aggs, parent=None, uuid=None):
        body = {'name': name, 'uuid': uuid or getattr(uuidsentinel, name), 'parent_provider_uuid': parent}
        call('POST', '/resource_providers', body)
        p = Provider(body['uuid'])
        if aggs:
            p.set_aggregates(aggs)
        return p

    def add_inventory(rp, rc, total, **more):
        if rc.startswith('CUSTOM_'):
            call('PUT', '/resource_classes/' + rc)
        call('POST', rp.path + '/inventories', dict({'resource_class': rc, 'total': total, 'max_unit': total}, **more))

    def set_traits(rp, *traits):
        for t in traits:
            if t.startswith('CUSTOM_'):
                call('PUT', '/traits/' + t)
        generation = call('GET', rp.path)['generation']
        call('PUT', rp.path + '/traits', {'traits': list(traits), 'resource_provider_generation': generation})

    def ensure_consumer(context, user, project, consumer_id=None):
        return Consumer(consumer_id or uuidutils.generate_uuid(), user, project)

    def set_allocation(context, rp, consumer, resources):
        call('PUT', '/allocations/' + consumer.uuid, {
            'allocations': {rp.uuid: {'resources': resources}}, 'consumer_generation': None,
            'project_id': consumer.project.id, 'user_id': consumer.user.id}, '1.36')

    def create_user_and_project(context, prefix='fake'):
        return Owner(context, prefix + '-user'), Owner(context, prefix + '-project')

    for f in (create_provider, add_inventory, set_traits, ensure_consumer, set_allocation, create_user_and_project):
        setattr(tb, f.__name__, f)
    return tb


class Quiet:
    """Stands for what a fixture needs of Placement's own process: its database, configuration and logs."""

    def __getattr__(self, name):
        return Quiet()

    def __call__(self, *args, **kwargs):
        return Quiet()

    def __iter__(self):
        return iter(())


def load_fixtures():
    """The suite's fixtures module, over the API."""
    def module(name, **attributes):
        m = types.ModuleType(name)
        m.__path__ = []
        for k, v in attributes.items():
            setattr(m, k, v)
        sys.modules[name] = m

    quiet = Quiet()
    for name, attributes in {
            'oslo_config': {'cfg': quiet, 'fixture': quiet}, 'oslo_log.fixture': {'logging_error': quiet},
            'oslo_policy': {'opts': quiet}, 'oslotest': {'output': quiet}, 'oslo_log': {},
            'placement': {'conf': quiet, 'context': quiet, 'deploy': quiet, 'policies': quiet},
            'placement.objects': {
                'project': types.SimpleNamespace(Project=Owner), 'user': types.SimpleNamespace(User=Owner),
                'resource_class': types.SimpleNamespace(ResourceClass=ResourceClass)},
            'placement.tests': {'fixtures': quiet}, 'placement.tests.unit': {'policy_fixture': quiet},
            'placement.tests.functional': {}, 'placement.tests.functional.db': {'test_base': make_test_base()},
            'placement.tests.functional.fixtures': {'capture': quiet}}.items():
        module(name, **attributes)
    spec = importlib.util.spec_from_file_location('suite_fixtures', SUITE + '/fixtures/gabbits.py')
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    start = m.APIFixture.start_fixture

    def start_empty(self):
        urllib.request.urlopen(urllib.request.Request(URL + '/reset', method='POST')).close()
        start(self)

    m.APIFixture.start_fixture = start_empty
    for name in ('LegacyRBACPolicyFixture', 'SecureRBACPolicyFixture'):
        if not hasattr(m, name):
            setattr(m, name, type(name, (m.APIFixture,), {}))
    return m


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed, self.failed, self.left = [], [], []

    def addSuccess(self, test):
        self.passed.append(test.id())

    def note(self, test, err):
        self.failed.append(test.id())
        text = ''.join(str(err[1]).splitlines(True)[:12])
        print('FAILED %s\n  %s\n' % (test.id(), text.replace('\n', '\n  ')))

    def addFailure(self, test, err):
        self.note(test, err)

    def addError(self, test, err):
        self.note(test, err)

    def addSkip(self, test, reason):
        self.left.append((test.id(), reason))

    def addExpectedFailure(self, test, err):
        self.left.append((test.id(), 'the suite expects it to fail'))


def main():
    fixtures = load_fixtures()
    host = re.sub('^http://', '', URL)
    address, port = host.rsplit(':', 1)
    result, files = Result(), 0
    for path in sorted(glob.glob(SUITE + '/gabbits/*.yaml')):
        name = os.path.basename(path)
        why = [reason for end, reason in LEFT_OUT_FILES.items() if name == end or end[0] == '-' and name.endswith(end)]
        suite = build(path, address, int(port), fixtures)
        files += 1
        if why:
            result.left += [(t.id(), why[0]) for t in flat(suite)]
            continue
        for t in flat(suite):
            one = t.id().removeprefix('gabbi.suitemaker.').removesuffix('.test_request')
            if one in LEFT_OUT:
                t.test_data['skip'] = LEFT_OUT[one]
        suite.run(result)
    reasons = {}
    for _, reason in result.left:
        reasons[reason] = reasons.get(reason, 0) + 1
    print('%d files: %d run, %d passed, %d failed, %d left out' % (
        files, len(result.passed) + len(result.failed), len(result.passed), len(result.failed), len(result.left)))
    for reason, n in sorted(reasons.items()):
        print('  left out %d: %s' % (n, reason))
    sys.exit(1 if result.failed or not result.passed else 0)


def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flat(t)
        else:
            yield t


def build(path, host, port, fixtures):
    """The tests of a file."""
    name = os.path.splitext(os.path.basename(path))[0]
    return suitemaker.test_suite_from_dict(
        unittest.TestLoader(), name, utils.load_yaml(yaml_file=path), os.path.dirname(path), host, port, fixtures, None,
        handlers=[h() for h in handlers.RESPONSE_HANDLERS])


main()
