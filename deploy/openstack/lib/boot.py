"""Boots servers through nova-api, and waits until they are ACTIVE.

boot.py N [flavor] [options]     N servers, one POST each, CONCURRENCY at a time
  --multi            one POST with min_count=N instead
  --concurrency C    parallel POSTs (default 8)
  --serial           wait until each server is ACTIVE before the next POST
  --hint k=v         scheduler hint (group=UUID ...), may be repeated
  --az ZONE          availability zone (or ZONE:HOST)
  --prefix P         name prefix (default boot-<time>)
  --keep             do not delete afterwards (the default); --delete: delete them and time that too
  --timeout S        give up after S seconds (default 600)
boot.py delete PREFIX            delete all servers with this name prefix and wait until they are gone
Prints one line: accepted, ACTIVE, ERROR, seconds, servers/s, the spread over hosts; and the faults.
"""
import argparse
import collections
import concurrent.futures
import sys
import time

from api import Cloud


def servers(c, prefix, detail=True):
    out, marker = [], ''
    while True:
        page = c.nova('GET', '/servers%s?name=^%s&limit=500%s' % ('/detail' if detail else '', prefix, marker))['servers']
        out += page
        if len(page) < 500:
            return out
        marker = '&marker=' + page[-1]['id']


def delete(c, prefix, timeout=600):
    t0 = time.time()
    todo = [s['id'] for s in servers(c, prefix, detail=False)]
    with concurrent.futures.ThreadPoolExecutor(8) as ex:
        list(ex.map(lambda i: c.nova('DELETE', '/servers/' + i, ok=(204, 404)), todo))
    while time.time() - t0 < timeout:
        left = servers(c, prefix, detail=False)
        if not left:
            break
        time.sleep(0.5)
    dt = time.time() - t0
    print('deleted %d of %d in %.1f s (%.1f/s)' % (len(todo) - len(left), len(todo), dt, len(todo) / dt))
    return not left


def main():
    if len(sys.argv) > 2 and sys.argv[1] == 'delete':
        sys.exit(0 if delete(Cloud(), sys.argv[2]) else 1)
    ap = argparse.ArgumentParser()
    ap.add_argument('n', type=int)
    ap.add_argument('flavor', nargs='?', default='m1.small')
    ap.add_argument('--multi', action='store_true')
    ap.add_argument('--concurrency', type=int, default=8)
    ap.add_argument('--serial', action='store_true')
    ap.add_argument('--hint', action='append', default=[])
    ap.add_argument('--az')
    ap.add_argument('--prefix', default='boot-%d' % time.time())
    ap.add_argument('--keep', action='store_true')
    ap.add_argument('--delete', action='store_true')
    ap.add_argument('--timeout', type=int, default=600)
    ap.add_argument('--interval', type=float, default=1.0)
    a = ap.parse_args()
    c = Cloud()
    flavor = [f['id'] for f in c.nova('GET', '/flavors')['flavors'] if f['name'] == a.flavor][0]
    image = c.call('GET', 'image', '/v2/images?name=empty')['images'][0]['id']
    hints = {}
    for h in a.hint:
        k, v = h.split('=', 1)
        hints[k] = v

    def post(i):
        body = {'server': {'name': '%s-%d' % (a.prefix, i), 'flavorRef': flavor, 'imageRef': image, 'networks': 'none'}}
        if a.multi:
            body['server'].update(name=a.prefix, min_count=a.n, max_count=a.n)
        if a.az:
            body['server']['availability_zone'] = a.az
        if hints:
            body['os:scheduler_hints'] = hints
        try:
            c.nova('POST', '/servers', body)
            return 1
        except Exception as e:
            print('POST failed: %s' % str(e)[:300])
            return 0

    t0 = time.time()
    if a.serial:
        accepted = 0
        for i in range(a.n):
            accepted += post(i)
            while time.time() - t0 < a.timeout and servers_count(c, '%s-%d$' % (a.prefix, i), 'BUILD'):
                time.sleep(0.2)
    else:
        with concurrent.futures.ThreadPoolExecutor(a.concurrency) as ex:
            accepted = sum(ex.map(post, range(1 if a.multi else a.n)))
    t_accept = time.time() - t0
    want = a.n if a.multi else accepted
    while True:
        # the listing is the only load that the waiting causes: without details until the end
        active = servers_count(c, a.prefix, 'ACTIVE')
        failed = servers_count(c, a.prefix, 'ERROR')
        if active + failed >= want or time.time() - t0 > a.timeout:
            break
        time.sleep(a.interval)
    dt = time.time() - t0
    all_ = servers(c, a.prefix)
    spread = collections.Counter(s.get('OS-EXT-SRV-ATTR:host') for s in all_ if s['status'] == 'ACTIVE')
    print('%s: accepted %d in %.1f s; ACTIVE %d, ERROR %d after %.1f s = %.2f servers/s; hosts %d (%s)' % (
        a.prefix, want, t_accept, active, failed, dt, active / dt, len(spread),
        ' '.join('%s:%d' % x for x in sorted(spread.items())[:12]) + (' ...' if len(spread) > 12 else '')))
    for s in all_:
        if s['status'] == 'ERROR':
            print('  ERROR %s: %s' % (s['name'], c.nova('GET', '/servers/' + s['id'])['server'].get('fault', {}).get('message')))
    if a.delete:
        delete(c, a.prefix)
    sys.exit(0 if active == a.n else 1)


def servers_count(c, prefix, status):
    return len(servers_status(c, prefix, status))


def servers_status(c, prefix, status):
    out, marker = [], ''
    while True:
        page = c.nova('GET', '/servers?name=^%s&status=%s&limit=1000%s' % (prefix, status, marker))['servers']
        out += page
        if len(page) < 1000:
            return out
        marker = '&marker=' + page[-1]['id']


if __name__ == '__main__':
    main()
