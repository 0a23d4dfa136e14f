# SPDX-License-Identifier: Apache-2.0
"""What the conductor hears when the gateway does not simply answer."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from unittest import mock

from nova import exception
import oslo_messaging as messaging

from cellgate_nova import claims
from cellgate_nova import client
import cellgate_nova.options
from cellgate_nova import refusal
from cellgate_nova import schema
import plugintest
from plugintest import CONF
from plugintest import spec
from plugintest import uuids

HERE = os.path.dirname(os.path.abspath(__file__))


class Scripted(plugintest.Base):

    def gateway(self, *script, tls=(), port=0):
        """A fake gateway, and the function that ends it and tells its calls."""
        p = subprocess.Popen(
            [sys.executable, os.path.join(HERE, 'fakegateway.py'),
             json.dumps(script), str(port)] + list(tls),
            stdout=subprocess.PIPE, text=True)
        endpoint = '127.0.0.1:' + p.stdout.readline().strip()

        def calls():
            p.terminate()
            return [line.split() for line in p.communicate()[0].splitlines()]

        self.addCleanup(p.stdout.close)
        self.addCleanup(p.kill)
        return endpoint, calls

    def ask(self, *script):
        endpoint, calls = self.gateway(*script)
        self.conf(endpoints=[endpoint])
        ids = uuids(1)
        try:
            return self.select(spec(ids), ids)
        finally:
            self.calls = calls()


class Length(Scripted):

    def test_a_long_refusal_is_heard(self):
        with self.assertRaises(exception.NoValidHost):
            self.ask({'code': 'FAILED_PRECONDITION', 'kind': 'NO_VALID_HOST',
                      'metadata': {'rejects': 'x' * 60000}})
        self.assertEqual(1, len(self.calls))


class Repetition(Scripted):

    def test_repeats_what_may_be_repeated_with_one_request_id(self):
        for code, kind in (('UNAVAILABLE', 'CELL_UNAVAILABLE'),
                           ('UNAVAILABLE', 'OUTCOME_UNKNOWN'),
                           ('ABORTED', 'CONTENDED'),
                           ('RESOURCE_EXHAUSTED', 'OVERLOADED'),
                           ('UNAVAILABLE', None)):
            refusal = {'code': code}
            if kind:
                refusal['kind'] = kind
            with self.subTest(kind=kind):
                got = self.ask(refusal, refusal, {'ok': True})
                self.assertEqual('h1', got[0][0].service_host)
                self.assertEqual(3, len(self.calls))
                self.assertEqual(1, len({c[1] for c in self.calls}))
                self.assertIn(self.context.request_id, self.calls[0][1])

    def test_waits_as_long_as_it_is_told(self):
        before = time.monotonic()
        self.ask({'code': 'RESOURCE_EXHAUSTED', 'kind': 'OVERLOADED',
                  'retry': 1}, {'ok': True})
        self.assertGreaterEqual(time.monotonic() - before, 1)

    def test_a_wait_beyond_the_deadline_is_not_waited(self):
        before = time.monotonic()
        with self.assertRaises(messaging.MessagingTimeout) as caught:
            self.ask({'code': 'RESOURCE_EXHAUSTED', 'kind': 'OVERLOADED',
                      'retry': 3600})
        self.assertLess(time.monotonic() - before, 20)
        self.assertIn('OVERLOADED', str(caught.exception))

    def test_what_ends_at_once(self):
        for code, kind, want in (
                ('FAILED_PRECONDITION', 'NO_VALID_HOST',
                 exception.NoValidHost),
                ('INVALID_ARGUMENT', 'INVALID_REQUEST', exception.NoValidHost),
                ('INTERNAL', 'INTERNAL', messaging.RemoteError),
                ('UNAUTHENTICATED', None, messaging.RemoteError),
                ('PERMISSION_DENIED', None, messaging.RemoteError),
                ('UNIMPLEMENTED', None, messaging.RemoteError)):
            refusal = {'code': code}
            if kind:
                refusal['kind'] = kind
            with self.subTest(code=code):
                with self.assertRaises(want):
                    self.ask(refusal)
                self.assertEqual(1, len(self.calls))

    def test_a_claim_of_another_request_makes_it_a_move(self):
        exists = {'code': 'ALREADY_EXISTS', 'kind': 'ALREADY_EXISTS',
                  'metadata': {'consumer_uuid': uuids(1)[0],
                               'claim_id': 'c', 'cell': 'cell1'}}
        self.ask(exists, {'ok': True})
        self.assertEqual(['SelectDestinations', 'SelectDestinations'],
                         [c[0] for c in self.calls])
        self.assertNotEqual(self.calls[0][1], self.calls[1][1])
        with self.assertRaises(exception.AllocationUpdateFailed):
            self.ask(exists)
        self.assertEqual(2, len(self.calls))

    def test_the_claim_of_an_earlier_move_is_awaited_then_released(self):
        pending = {'code': 'ALREADY_EXISTS', 'kind': 'ALREADY_EXISTS',
                   'metadata': {'consumer_uuid': uuids(1)[0],
                                'claim_id': 'c', 'cell': 'cell1',
                                'claim_state': 'PENDING',
                                'claim_request_id': 'nova/req-other/x'}}
        script = [pending] * 3 + [{'ok': True}]
        with mock.patch.object(client, '_PAUSE', 0.01):
            self.ask(*script)
            self.assertEqual(['SelectDestinations'] * 4,
                             [c[0] for c in self.calls])
            with mock.patch.object(client, '_SETTLE', 0):
                self.ask(*script[1:])
        self.assertEqual(
            ['SelectDestinations', 'SelectDestinations', 'ReleaseClaim',
             'SelectDestinations'], [c[0] for c in self.calls])


class Down(Scripted):

    def nobody(self):
        """An address where nobody listens."""
        endpoint, calls = self.gateway({'ok': True})
        calls()
        return endpoint

    def test_no_gateway_is_no_scheduler(self):
        self.conf(endpoints=[self.nobody(), self.nobody()], timeout=2,
                  attempt_timeout=1)
        ids = uuids(1)
        before = time.monotonic()
        with self.assertRaises(messaging.MessagingTimeout):
            self.select(spec(ids), ids)
        self.assertLess(time.monotonic() - before, 20)

    def test_the_next_gateway(self):
        endpoint, calls = self.gateway({'ok': True})
        self.conf(endpoints=[self.nobody(), endpoint])
        ids = uuids(1)
        self.select(spec(ids), ids)
        self.assertEqual(1, len(calls()))

    def test_a_gateway_that_hangs(self):
        hangs, _ = self.gateway({'hang': True})
        answers, calls = self.gateway({'ok': True})
        self.conf(endpoints=[hangs, answers], attempt_timeout=1)
        ids = uuids(1)
        self.select(spec(ids), ids)
        self.assertEqual(1, len(calls()))

    def test_others_go_on_while_a_call_waits(self):
        # Under eventlet a call that waited in C would stop every green
        # thread of the conductor.
        import threading
        hangs, _ = self.gateway({'hang': True})
        self.conf(endpoints=[hangs], attempt_timeout=2, timeout=2)
        ticks, over = [], []

        def tick():
            while not over:
                ticks.append(1)
                time.sleep(0.01)

        def ask():
            ids = uuids(1)
            with self.assertRaises(messaging.MessagingTimeout):
                self.select(spec(ids), ids)
            over.append(1)

        workers = [threading.Thread(target=ask) for _ in range(10)]
        for w in workers:
            w.start()
        tick()
        for w in workers:
            w.join()
        self.assertEqual(10, len(over))
        self.assertGreater(len(ticks), 10)


class Credentials(Scripted):

    def test_the_token_is_read_again(self):
        endpoint, calls = self.gateway({'ok': True})
        with tempfile.NamedTemporaryFile('w') as f:
            f.write('first\n')
            f.flush()
            self.conf(endpoints=[endpoint], token_file=f.name)
            ids = uuids(2)
            self.select(spec(ids[:1]), ids[:1])
            f.seek(0)
            f.write('other\n')
            f.flush()
            self.select(spec(ids[1:]), ids[1:])
        self.assertEqual([['Bearer', 'first'], ['Bearer', 'other']],
                         [c[2:] for c in calls()])

    def certificate(self, directory, name):
        """A certificate that is its own CA, and its key."""
        pem, key = (os.path.join(directory, name + end)
                    for end in ('.pem', '-key.pem'))
        subprocess.run(
            ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
             'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
             '-subj', '/CN=' + name, '-addext',
             'subjectAltName=IP:127.0.0.1,DNS:gateway.example.org',
             '-out', pem, '-keyout', key], check=True,
            stderr=subprocess.DEVNULL)
        return pem, key

    def test_tls_both_ways(self):
        with tempfile.TemporaryDirectory() as d:
            server, ours, others = (self.certificate(d, n) for n in (
                'server', 'ours', 'others'))
            endpoint, calls = self.gateway(
                {'ok': True}, tls=list(server) + [ours[0]])
            self.conf(endpoints=[endpoint], timeout=600, attempt_timeout=300,
                      tls_ca_file=server[0], tls_cert_file=ours[0],
                      tls_key_file=ours[1])
            ids = uuids(1)
            self.select(spec(ids), ids)
            self.conf(tls_server_name='gateway.example.org')
            self.select(spec(ids), ids)
            self.conf(timeout=2, attempt_timeout=1)
            for wrong in (dict(tls_ca_file=others[0]),
                          dict(tls_cert_file=others[0],
                               tls_key_file=others[1]),
                          dict(tls_server_name='elsewhere.example.org')):
                self.conf(tls_ca_file=server[0], tls_cert_file=ours[0],
                          tls_key_file=ours[1], tls_server_name=None)
                self.conf(**wrong)
                with self.subTest(wrong=list(wrong)):
                    with self.assertRaises(messaging.MessagingTimeout):
                        self.select(spec(ids), ids)
            self.assertEqual(2, len(calls()))

    def test_tls_after_nobody_listened(self):
        """A gateway that starts late is found with the next attempt."""
        with tempfile.TemporaryDirectory() as d:
            server, ours = (self.certificate(d, n) for n in ('server', 'ours'))
            with socket.socket() as s:
                s.bind(('127.0.0.1', 0))
                port = s.getsockname()[1]
            self.conf(endpoints=['127.0.0.1:%d' % port], timeout=1,
                      attempt_timeout=1, tls_ca_file=server[0],
                      tls_cert_file=ours[0], tls_key_file=ours[1])
            ids = uuids(1)
            with self.assertRaises(messaging.MessagingTimeout):
                self.select(spec(ids), ids)
            endpoint, calls = self.gateway(
                {'ok': True}, tls=list(server) + [ours[0]], port=port)
            self.conf(timeout=300, attempt_timeout=60)
            self.select(spec(ids), ids)
            self.assertEqual(1, len(calls()))

    def test_what_cannot_work_is_told_at_start(self):
        self.conf(endpoints=['gw1', 'gw2.example.org:9090'],
                  token_file='/dev/null', tls_cert_file='/nonexistent')
        with self.assertRaises(ValueError) as caught:
            self.client()
        for words in ("'gw1' is not host:port", 'readable to gw2.example.org',
                      'one without the other', '/nonexistent'):
            self.assertIn(words, str(caught.exception))


class Confirmation(Scripted):

    def test_the_plugin_confirms_if_configured(self):
        self.ask({'ok': True})
        self.assertEqual(['SelectDestinations'], [c[0] for c in self.calls])
        self.conf(confirm='conductor')
        self.ask({'ok': True})
        self.assertEqual(['SelectDestinations', 'ConfirmClaim'],
                         [c[0] for c in self.calls])


class Alternates(plugintest.Base):

    def test_a_full_alternate_is_the_next_ones_turn(self):
        class Full(object):
            def call(self, method, fields, deadline):
                if method is schema.GET_CLAIM:
                    return schema.build(schema.GET_CLAIM.response, {
                        'claim': {'claim_id': 'c', 'cell': 'cell1'}})
                asked.append(fields)
                raise refusal.Refusal('FAILED_PRECONDITION', 'full',
                                      kind='NO_VALID_HOST')

        asked = []
        instance, host = uuids(2)
        self.assertFalse(claims.Claims(Full(), time.monotonic)
                         .move_to_alternate(instance, {
                             'allocations': {host: {'resources': {}}},
                             'mappings': {'': [host]}}, 77))
        self.assertEqual([{'consumer_uuid': instance, 'claim_id': 'c',
                           'cell': 'cell1', 'host_uuid': host,
                           'claim_ttl': '77s'}], asked)

    def asked(self, found, refused=''):
        """What is asked for an alternate, and what the conductor hears."""
        class Gateway(object):
            def call(self, method, fields, deadline):
                if method is schema.GET_CLAIM:
                    return schema.build(schema.GET_CLAIM.response, found)
                asked.append(fields['claim_id'])
                if refused:
                    raise refusal.Refusal('FAILED_PRECONDITION', 'no',
                                          kind=refused)

        asked = []
        instance, host = uuids(2)
        return claims.Claims(Gateway(), time.monotonic).move_to_alternate(
            instance, {'allocations': {host: {'resources': {}}},
                       'mappings': {'': [host]}}, 77), asked

    def test_a_move_takes_the_alternate_and_its_source_stays(self):
        source = {'claim_id': 's', 'state': 'CONFIRMED'}
        move = {'claim_id': 'm', 'state': 'PENDING', 'moves_claim_id': 's'}
        self.assertEqual((True, ['m']), self.asked(
            {'claim': source, 'other_claim': move}))
        self.assertEqual((True, ['m']), self.asked(
            {'claim': dict(move, state='CONFIRMED'), 'other_claim': source}))

    def test_an_alternate_that_rejects_the_claim_is_the_next_ones_turn(self):
        self.assertEqual((False, ['c']), self.asked(
            {'claim': {'claim_id': 'c'}}, 'CLAIM_REJECTED'))


class Options(plugintest.Base):

    def test_the_generator_finds_them(self):
        (name, opts), = cellgate_nova.options.list_opts()
        self.assertEqual('cellgate', name)
        self.assertEqual({o.name for o in opts}, set(CONF.cellgate))
        self.assertTrue(all(o.help for o in opts))
