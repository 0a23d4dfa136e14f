"""Compares cellgate's claims with Nova's servers.

claims.py SECONDS: waits until every claim is of a server on the claim's host, and every server on a
host has a claim; prints what differs when the time is over, and ends with status 1.
"""
import json
import os
import subprocess
import sys
import time

from api import Cloud
from boot import servers

ADDRESS = '127.0.0.1:' + os.environ['GATEWAY_GRPC_PORT']


def listed(*command):
    out = subprocess.run([os.environ['CELLGATE'], '--addr', ADDRESS, *command, '--limit', '0', '-o', 'json'], check=True, capture_output=True, text=True).stdout
    return json.loads(out)[command[0]]


def hosts():
    """Names of the hosts that cells have."""
    return {h['service_host'] for h in listed('hosts')}


def claims():
    """consumer: [(host, state)]"""
    found = {}
    for c in listed('claims', 'list'):
        found.setdefault(c['consumer_uuid'], []).append((c['service_host'], c['state']))
    return found


def difference(c):
    held, there = claims(), {s['id']: s['OS-EXT-SRV-ATTR:host'] for s in servers(c, '') if s['OS-EXT-SRV-ATTR:host']}
    return ['server %s on %s: claims %s' % (i, there.get(i), held.get(i, [])) for i in sorted(set(held) | set(there))
            if [h for h, _ in held.get(i, [])] != [there.get(i)]]


def main():
    c, until = Cloud(), time.time() + float(sys.argv[1])
    while True:
        differ = difference(c)
        if not differ or time.time() > until:
            break
        time.sleep(1)
    for line in differ[:20]:
        print('  ' + line)
    if differ:
        sys.exit('%d servers differ from their claims' % len(differ))


if __name__ == '__main__':
    main()
