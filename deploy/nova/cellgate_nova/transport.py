# SPDX-License-Identifier: Apache-2.0
"""Calls to gateways: channels, credentials, repetition.

gRPC's C core waits outside Python. Where Nova runs on eventlet (Zed and, by
choice, later), a call therefore runs in a native thread of eventlet's pool,
so that the other green threads of the conductor go on; and grpc is imported
with the modules that eventlet has not patched, because its locks are taken
in native threads.
"""

import os
import random
import sys
import threading
import time

from cellgate_nova import refusal
from cellgate_nova import schema

# Seconds: the first pause before a repetition, and the longest.
_PAUSE, _LONGEST_PAUSE = 0.1, 2.0

_CHANNEL_OPTIONS = [
    # Repetition is ours: it knows which errors allow it.
    ('grpc.enable_retries', 0),
    # A gateway that comes back is found at once, not after gRPC's two minutes.
    ('grpc.initial_reconnect_backoff_ms', 100),
    ('grpc.max_reconnect_backoff_ms', 2000),
    # What its name does not say: how long a connection may take, with TLS.
    ('grpc.min_reconnect_backoff_ms', 5000),
    # A new channel connects at once, whatever an old one waits for.
    ('grpc.use_local_subchannel_pool', 1),
    # A connection that a firewall dropped is noticed while a call waits.
    ('grpc.keepalive_time_ms', 30000),
    ('grpc.keepalive_timeout_ms', 10000),
    # A refusal says of every cell who rejected its hosts, in a trailer, of which
    # gRPC takes 8 KiB when nothing is said.
    ('grpc.max_metadata_size', 4 << 20),
]


def _green():
    """Whether eventlet has patched threads in this process."""
    patcher = sys.modules.get('eventlet.patcher')
    return patcher is not None and patcher.is_monkey_patched('thread')


_import_lock = threading.Lock()


def _grpc():
    with _import_lock:
        if 'grpc' in sys.modules or not _green():
            import grpc
            return grpc
        # What grpc imports and others share must be there before.
        import asyncio  # noqa: F401
        import concurrent.futures.thread  # noqa: F401

        from eventlet import patcher
        names = ('threading', 'time', 'queue')
        patched = {n: sys.modules[n] for n in names if n in sys.modules}
        originals = {n: patcher.original(n) for n in names}
        sys.modules.update(originals)
        try:
            import grpc
        finally:
            for n in names:
                if n in patched:
                    sys.modules[n] = patched[n]
                else:
                    del sys.modules[n]
        return grpc


def _native(fn):
    """Run fn where waiting in C stops nobody else."""
    if not _green():
        return fn()
    from eventlet import tpool
    return tpool.execute(fn)


class Transport(object):
    """Channels to the gateways of section [cellgate]; safe for threads.

    Made before or after the service's workers fork: channels belong to the
    process that first calls.
    """

    def __init__(self, group, now=time.monotonic, sleep=time.sleep):
        self._group = group
        self._now, self._sleep = now, sleep
        self._lock = threading.Lock()
        self._channels = {}  # by process, endpoint and the files as they were
        self._first = 0  # the endpoint that answered last

    def call(self, method, fields, deadline=None):
        """Send a request and give the answer's message.

        Repeats what may be repeated until the deadline (of time.monotonic;
        by default the section's timeout from now). Raises Refusal.
        """
        if deadline is None:
            deadline = self._now() + self._group.timeout
        request = schema.build(method.request, fields).SerializeToString()
        pause = _PAUSE
        while True:
            left = deadline - self._now()
            if left <= 0:
                raise refusal.Refusal('DEADLINE_EXCEEDED', 'no time is left')
            try:
                return self._once(method, request, left)
            except refusal.Refusal as r:
                if not r.repeatable:
                    raise
                if r.elsewhere:
                    self._first += 1
                wait = max(r.wait or 0, pause * random.uniform(0.5, 1))
                if self._now() + wait >= deadline:
                    raise
            self._sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _once(self, method, request, left):
        grpc = _grpc()
        endpoints = self._group.endpoints
        channel = self._channel(grpc, endpoints[self._first % len(endpoints)])
        call = channel.unary_unary(method.path)
        timeout = min(left, self._group.attempt_timeout)
        metadata = self._metadata()

        def run():
            try:
                return call(request, timeout=timeout, metadata=metadata), None
            except grpc.RpcError as e:
                return None, e

        answer, e = _native(run)
        if e is None:
            return schema.message(method.response).FromString(answer)
        details = [v for k, v in e.trailing_metadata() or ()
                   if k == 'grpc-status-details-bin']
        if e.code() == grpc.StatusCode.UNAVAILABLE and not details:
            self._forget(channel)
        raise refusal.Refusal.of(
            e.code().name, e.details() or '', details[0] if details else b'')

    def _metadata(self):
        if not self._group.token_file:
            return ()
        with open(self._group.token_file, encoding='utf-8') as f:
            return (('authorization', 'Bearer ' + f.read().strip()),)

    def _channel(self, grpc, endpoint):
        g = self._group
        files = tuple(
            (p, os.stat(p).st_mtime_ns)
            for p in (g.tls_ca_file, g.tls_cert_file, g.tls_key_file) if p)
        key = (os.getpid(), endpoint, files, g.tls_server_name)
        with self._lock:
            channel = self._channels.get(key)
            if channel is None:
                # One that other files made ends with its last call; what was
                # made before a fork is the parent's to close.
                self._channels = {k: c for k, c in self._channels.items()
                                  if k[:2] != key[:2]}
                channel = self._channels[key] = self._dial(grpc, endpoint)
            return channel

    def _forget(self, channel):
        """Have the next call connect anew.

        gRPC makes progress while a call waits. On a channel that failed to
        connect calls fail at once, so that its next handshake takes long, or
        never ends; a call on a new channel waits for its connection.
        """
        with self._lock:
            self._channels = {k: c for k, c in self._channels.items()
                              if c is not channel}

    def _dial(self, grpc, endpoint):
        g = self._group
        if not g.tls_ca_file:
            return grpc.insecure_channel(endpoint, options=_CHANNEL_OPTIONS)

        def read(path):
            if not path:
                return None
            with open(path, 'rb') as f:
                return f.read()

        options = list(_CHANNEL_OPTIONS)
        if g.tls_server_name:
            options.append(('grpc.ssl_target_name_override', g.tls_server_name))
        return grpc.secure_channel(
            endpoint, grpc.ssl_channel_credentials(
                read(g.tls_ca_file), read(g.tls_key_file),
                read(g.tls_cert_file)), options=options)
