"""Kills services (SIGKILL) at random times while servers are booted, moved, evacuated, shelved and deleted in both cells.

faults.py SEED KILLS: after KILLS kills the servers come to rest; then claims and allocations are compared with the servers,
and the servers are deleted. Prints what failed with its cause, and PASS or FAIL a check. The seed determines the order of
kills and of each worker's operations, not the moment at which they meet.
"""
import collections
import os
import random
import re
import subprocess
import sys
import threading
import time
import traceback

import claims
import scenario
from scenario import action, c, check, flavor, host, image, server, services

SEED, KILLS = int(sys.argv[1]), int(sys.argv[2])
OURS = os.environ['SCHEDULER'] != 'nova'
WORKERS, LIMIT = 8, 240   # LIMIT: seconds for an operation. Nova's own timeouts are 60 s, some one after the other
ZONES = {'cell1': 'fake-', 'cell2': 'cell2-'} if os.environ['HOSTS2'] != '0' else {'cell1': 'fake-'}
# Each with its counterpart on a stack of Nova's own: what holds allocations there is behind placement-api.
ROLES = ['cellgate-gateway', 'placement', 'rabbitmq'] + ['cellgate-' + cell for cell in ZONES]
if not OURS:
    ROLES = ['nova-scheduler', 'placement', 'rabbitmq'] + ['placement' for cell in ZONES]
finished = threading.Event()
lock = threading.Lock()
kills, operations = [], []
Kill = collections.namedtuple('Kill', 'name began ended')
Operation = collections.namedtuple('Operation', 'what server state began ended')


def bash(command, **env):
    """Runs a command with the functions of env.sh."""
    log = open(os.environ['STACK'] + '/log/faults.log', 'a')
    subprocess.run(['bash', '-c', 'set -e; . "$CODE/env.sh"; ' + command], check=True, stdout=log, stderr=log, env=dict(os.environ, **env))


def kill(name):
    pid = '"$(cat "$STACK/rabbit/pid")"' if name == 'rabbitmq' else '-- "-$(cat "$STACK/run/%s.pid")"' % name
    bash('kill -KILL %s; until_ok 60 "the end of %s" eval "! alive %s"' % (pid, name, name))


def start(name):
    if name == 'rabbitmq':
        bash('start_rabbitmq; until_ok 90 RabbitMQ rabbitctl await_startup')
    elif name == 'nova-scheduler':
        # It ends at once if Placement is away, and is started again then, as systemd does.
        bash('log="$STACK/log/nova-scheduler.log"; rm -f "$log"; until_ok 90 nova-scheduler eval '
             '"start nova-scheduler nova-scheduler --config-file $STACK/etc/nova/nova.conf; grep -q \'Starting scheduler node\' $log"')
    elif 'placement-' in name:
        bash('start_placement ' + name[-1])
    else:
        bash('"$CODE/cellgate.sh" start')


def killer():
    rng = random.Random(SEED)
    try:
        for _ in range(KILLS):
            time.sleep(rng.uniform(2, 10))
            name, n = rng.choice(ROLES), 1 + rng.randrange(2)
            if name == 'placement':
                name = '%splacement-%d' % ('cellgate-' if os.environ['PLACEMENT'] == 'cellgate' else '', min(n, int(os.environ['PLACEMENT_SERVERS'])))
            kill(name)
            began = time.time()
            time.sleep(rng.uniform(0.5, 4))
            start(name)
            kills.append(Kill(name, began, time.time()))
            print('%s kill -9 %s, back after %.1f s' % (time.strftime('%H:%M:%S', time.localtime(began)), name, time.time() - began), flush=True)
    finally:
        finished.set()


def cause(i):
    """Why the last operation of a server did not succeed: its fault, and the events that failed or never ended."""
    out = []
    try:
        out.append(server(i).get('fault', {}).get('message'))
        last = c.nova('GET', '/servers/%s/os-instance-actions' % i)['instanceActions'][0]
        for e in c.nova('GET', '/servers/%s/os-instance-actions/%s' % (i, last['request_id']))['instanceAction']['events']:
            if e['result'] != 'Success':
                out.append('%s: %s' % (e['event'], (e.get('traceback') or 'no end').strip().splitlines()[-1]))
    except RuntimeError as e:
        out.append(str(e))
    text = '; '.join(x for x in out if x)
    return re.sub(r'[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}', 'ID', text)[:600]


def operate(what, i, request, done):
    """One operation; whether it came to what it should. A server without a task has come to rest, after a moment."""
    began, rest, state = time.time(), None, None
    try:
        if request:
            i = request() or i
    except Exception as e:   # nova-api asks RabbitMQ and Placement itself
        state, why = 'refused' if ' 409 ' in str(e) else 'failed', str(e)[:300]
    while not state:
        time.sleep(0.5)
        try:
            s = server(i)
        except RuntimeError as e:
            if ' 404 ' not in str(e):
                continue
            s = None
        if done(s):
            state = 'ok'
        elif s and s['status'] == 'ERROR':
            state = 'ERROR'
        elif s and not s['OS-EXT-STS:task_state'] and s['status'] != 'BUILD' and what not in ('confirm', 'delete'):   # those have none
            rest = rest or time.time()
            if time.time() - rest > 10:
                state = 'undone'
        if not state and time.time() - began > LIMIT:
            state = 'unfinished in state %s' % s['OS-EXT-STS:task_state']
    if state not in ('ok', 'refused', 'failed'):
        why = cause(i)
    with lock:
        operations.append(Operation(what, i, state, began, time.time()))
        if state != 'ok':
            print('%s %s of %s after %.0f s: %s: %s' % (time.strftime('%H:%M:%S'), what, i, time.time() - began, state, why), flush=True)
    return i if state == 'ok' else None


def at_rest(status, where=lambda h: True):
    return lambda s: s and s['status'] == status and not s['OS-EXT-STS:task_state'] and where(host(s))


def boot(name, **extra):
    body = {'server': dict({'name': name, 'flavorRef': flavor('m1.tiny'), 'imageRef': image(), 'networks': 'none'}, **extra)}
    return operate('boot', None, lambda: c.nova('POST', '/servers', body)['server']['id'], at_rest('ACTIVE'))


def move(i, what, rng):
    """A move of a server and what belongs to it; whether all of it succeeded."""
    s, revert = server(i), rng.random() < 0.3
    before = host(s)
    if what in ('resize', 'migrate'):
        to = flavor('m1.small' if s['flavor']['original_name'] == 'm1.tiny' else 'm1.tiny')
        return (operate(what, i, lambda: action(i, {'resize': {'flavorRef': to}} if what == 'resize' else {'migrate': None}), at_rest('VERIFY_RESIZE'))
                and operate('revert' if revert else 'confirm', i, lambda: action(i, {'revertResize' if revert else 'confirmResize': None}), at_rest('ACTIVE')))
    if what == 'live migration':
        return operate(what, i, lambda: action(i, {'os-migrateLive': {'host': None, 'block_migration': 'auto'}}), at_rest('ACTIVE', lambda h: h != before))
    return (operate('shelve', i, lambda: action(i, {'shelve': None}), at_rest('SHELVED_OFFLOADED'))
            and operate('unshelve', i, lambda: action(i, {'unshelve': None}), at_rest('ACTIVE')))


def remove(i):
    return operate('delete', i, lambda: c.nova('DELETE', '/servers/' + i), lambda s: not s)


def works(n):
    rng, k = random.Random('%d-%d' % (SEED, n)), 0
    while not finished.is_set():
        k += 1
        zone, moves, keep = rng.choice(list(ZONES)), [rng.choice(['resize', 'migrate', 'live migration', 'shelve']) for _ in range(3)], rng.random() < 0.3
        i = boot('faults-%d-%d' % (n, k), availability_zone=zone)
        if i and all(finished.is_set() or move(i, what, rng) for what in moves) and not keep:
            remove(i)


def extra(cell, what):
    bash({'start': 'start %s /usr/bin/python3 "$CODE/lib/fleet.py" "$STACK/etc/nova/compute-%s.conf" %s 1' % ('fleet-extra-' + cell, cell, ZONES[cell]),
          'stop': 'stop fleet-extra-' + cell}[what], FLEET_FIRST='900')


def evacuates():
    """Stops the extra host of a cell, evacuates its server, and starts it again."""
    rng, k = random.Random('%d-evacuate' % SEED), 0
    while not finished.is_set():
        k += 1
        cell = rng.choice(list(ZONES))
        lost = ZONES[cell] + '900'
        i = boot('faults-evacuate-%d' % k, host=lost)
        if not i:
            continue
        extra(cell, 'stop')
        service = services()[lost]['id']
        c.nova('PUT', '/os-services/' + service, {'forced_down': True})
        evacuated = operate('evacuate', i, lambda: action(i, {'evacuate': {}}), at_rest('ACTIVE', lambda h: h != lost))
        extra(cell, 'start')
        scenario.back(service, 300)
        if evacuated:
            remove(i)


def guarded(f, *args):
    def run():
        try:
            f(*args)
        except Exception:
            traceback.print_exc()
            check('%s ran to its end' % f.__name__, False)
            finished.set()
    t = threading.Thread(target=run)
    t.start()
    return t


def prepare():
    """A zone for each cell, and in each cell one host without a zone, which nothing moves to."""
    have = {a['name']: a for a in c.nova('GET', '/os-aggregates')['aggregates']}
    for cell, prefix in ZONES.items():
        a = have.get(cell) or c.nova('POST', '/os-aggregates', {'aggregate': {'name': cell, 'availability_zone': cell}})['aggregate']
        for h in services():
            if h.startswith(prefix) and h not in a.get('hosts', []):
                c.nova('POST', '/os-aggregates/%s/action' % a['id'], {'add_host': {'host': h}})
        extra(cell, 'start')
    for prefix in ZONES.values():
        scenario.wait_host(prefix + '900')


def settle():
    """Servers whose operation was cut off by the end of the run: a resize is confirmed."""
    t0 = time.time()
    while time.time() - t0 < 120:
        left = [s for s in c.nova('GET', '/servers/detail')['servers'] if s['status'] == 'VERIFY_RESIZE' or s['OS-EXT-STS:task_state']]
        for s in left:
            if s['status'] == 'VERIFY_RESIZE' and not s['OS-EXT-STS:task_state']:
                action(s['id'], {'confirmResize': None}, ok=None)
        if not left:
            break
        time.sleep(2)


def abandon(began):
    """Deletes the servers whose migration never ends since RabbitMQ lost its message, and what those migrations hold: Nova leaves both."""
    since = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(began))
    ends = ('done', 'confirmed', 'reverted', 'completed', 'error', 'failed', 'cancelled', 'finished')
    cut = [m for m in c.nova('GET', '/os-migrations?changes-since=' + since)['migrations'] if m['status'] not in ends]
    if cut:
        print('%d migrations never end: %s' % (len(cut), ', '.join('%s of %s (%s)' % (m['uuid'], m['instance_uuid'], m['status']) for m in cut)))
        scenario.delete(*{m['instance_uuid'] for m in cut})
    for m in cut:
        c.call('DELETE', 'placement', '/allocations/' + m['uuid'], ok=(204, 404))
    return {m['instance_uuid'] for m in cut}


def delete_all():
    """Deletes what is left; a request that was lost with RabbitMQ is repeated."""
    for _ in range(4):
        ids = [s['id'] for s in c.nova('GET', '/servers')['servers']]
        if scenario.delete(*ids):
            break
    for cell, prefix in ZONES.items():
        extra(cell, 'stop')
        c.nova('DELETE', '/os-services/' + services()[prefix + '900']['id'])
    for a in c.nova('GET', '/os-aggregates')['aggregates']:
        if a['name'] in ZONES:
            for h in a['hosts']:
                c.nova('POST', '/os-aggregates/%s/action' % a['id'], {'remove_host': {'host': h}})
            c.nova('DELETE', '/os-aggregates/%s' % a['id'])


def counts(names):
    return ', '.join('%d %s' % (n, name) for name, n in sorted(collections.Counter(names).items()))


def main():
    prepare()
    began = time.time()
    threads = [guarded(works, n) for n in range(WORKERS)] + [guarded(evacuates), guarded(killer)]
    for t in threads:
        t.join()
    settle()
    abandoned = abandon(began)
    print('%d operations in %.0f s: %s' % (len(operations), time.time() - began, counts(o.what for o in operations)))
    print('%d kills: %s' % (len(kills), counts(k.name for k in kills)))
    print('operations ended: ' + counts(o.state.split()[0] for o in operations))
    # nova-api refuses while the heartbeat of a compute is late, as on a busy machine.
    failed = [o for o in operations if o.state not in ('ok', 'refused')]
    # Nova's reply queues are not durable: a caller waits 60 s for the answer that its broker has lost.
    lost = [o for o in failed if any(k.name == 'rabbitmq' and o.began < k.ended + 60 and o.ended > k.began for k in kills)]
    check('each migration that never ends was cut off with RabbitMQ', abandoned <= {o.server for o in lost})
    check('%d kills' % KILLS, len(kills) == KILLS)
    if OURS:
        check('of %d operations %d failed, each with RabbitMQ' % (len(operations), len(failed)), failed == lost)
        t0 = time.time()
        while claims.difference(c) and time.time() - t0 < 400:   # a claim of a call that was cut off ends with its lease
            time.sleep(2)
        differ = claims.difference(c)
        check('every server has its claim, and no claim is of another', not differ, '%.0f s %s' % (time.time() - t0, '; '.join(differ[:5])))
    scenario.p_manage()
    delete_all()
    scenario.p_delete()
    sys.exit(0 if all(scenario.results) else 1)


if __name__ == '__main__':
    main()
