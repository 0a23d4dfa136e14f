"""Everything for which Nova asks a scheduler, and what must come of it.

scenario.py [phase...]: the named phases, or all in order. Prints PASS or FAIL for each check and
ends with status 1 if one failed.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import time
import traceback
import uuid

import claims
from api import Cloud

STACK = os.environ['STACK']
CODE = os.environ['CODE']
c = Cloud()
results = []


def check(what, ok, note=''):
    results.append(bool(ok))
    print('%s  %s%s' % ('PASS' if ok else 'FAIL', what, ('  (%s)' % note) if note else ''), flush=True)
    return ok


def flavor(name, vcpus=1, ram=512, disk=1, extra=None):
    for f in c.nova('GET', '/flavors')['flavors']:
        if f['name'] == name:
            return f['id']
    f = c.nova('POST', '/flavors', {'flavor': {'name': name, 'vcpus': vcpus, 'ram': ram, 'disk': disk}})['flavor']['id']
    if extra:
        c.nova('POST', '/flavors/%s/os-extra_specs' % f, {'extra_specs': extra})
    return f


def image(name='empty'):
    i = c.call('GET', 'image', '/v2/images?name=' + name)['images']
    if i:
        return i[0]['id']
    i = c.call('POST', 'image', '/v2/images', {'name': name, 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'public'})
    c.call('PUT', 'image', '/v2/images/%s/file' % i['id'], data=b'\1' * 512, headers={'Content-Type': 'application/octet-stream'})
    return i['id']


def server(i):
    return c.nova('GET', '/servers/' + i)['server']


def wait(i, status, timeout=180, task=None):
    t0 = time.time()
    while time.time() - t0 < timeout:
        s = server(i)
        if s['status'] in status and not s['OS-EXT-STS:task_state']:
            return s
        if s['status'] == 'ERROR' and 'ERROR' not in status:
            return s
        time.sleep(0.5)
    return server(i)


def wait_moved(i, source, timeout=180):
    """An accepted migration leaves the server ACTIVE for a while: wait until it is ACTIVE somewhere else."""
    t0 = time.time()
    while time.time() - t0 < timeout:
        s = server(i)
        if s['status'] == 'ERROR' or (host(s) != source and s['status'] == 'ACTIVE' and not s['OS-EXT-STS:task_state']):
            return s
        time.sleep(0.5)
    return server(i)


def boot(name, fl='m1.tiny', n=1, hints=None, want=('ACTIVE',), **extra):
    body = {'server': dict({'name': name, 'flavorRef': flavor(fl), 'imageRef': image(), 'networks': 'none'}, **extra)}
    if n > 1:
        body['server'].update(min_count=n, max_count=n)
    if hints:
        body['os:scheduler_hints'] = hints
    c.nova('POST', '/servers', body)
    t0 = time.time()
    while time.time() - t0 < 180:
        found = c.nova('GET', '/servers/detail?name=^%s' % name)['servers']
        if len(found) == n and all(s['status'] in ('ACTIVE', 'ERROR') for s in found):
            break
        time.sleep(0.5)
    for s in found:
        if s['status'] == 'ERROR':
            s['fault'] = server(s['id']).get('fault')
    return found


def host(s):
    return s['OS-EXT-SRV-ATTR:host']


def spread(found):
    """How many hosts the servers are on; 0 if one of them is not ACTIVE."""
    return len({host(s) for s in found}) if all(s['status'] == 'ACTIVE' for s in found) else 0


def action(i, body, **kw):
    return c.nova('POST', '/servers/%s/action' % i, body, **kw)


def delete(*ids):
    for i in ids:
        c.nova('DELETE', '/servers/' + i, ok=(204, 404))
    t0 = time.time()
    while time.time() - t0 < 120 + 2 * len(ids):
        left = {s['id'] for s in c.nova('GET', '/servers')['servers']} & set(ids)
        if not left:
            return True
        time.sleep(0.5)
    return False


def allocations(consumer):
    return c.call('GET', 'placement', '/allocations/' + consumer)['allocations']


def services(binary='nova-compute'):
    return {s['host']: s for s in c.nova('GET', '/os-services?binary=' + binary)['services']}


# --- phases -------------------------------------------------------------------------------------------

def p_boot():
    s = boot('one')[0]
    check('boot one server', s['status'] == 'ACTIVE', host(s))
    a = allocations(s['id'])
    check('its allocation is on one provider', len(a) == 1, json.dumps(list(a.values())[0]['resources']) if a else '')


def p_boot_multi():
    found = boot('multi', n=3)
    check('boot three with one request (min_count=3)', [s['status'] for s in found] == ['ACTIVE'] * 3, ' '.join(host(s) or '-' for s in found))


def p_boot_fail():
    flavor('m1.impossible', vcpus=4000, ram=512)
    s = boot('impossible', 'm1.impossible')[0]
    check('NoValidHost: ERROR with fault', s['status'] == 'ERROR' and 'No valid host' in s['fault']['message'], s.get('fault', {}).get('message'))
    delete(s['id'])
    found = boot('impossible-multi', 'm1.impossible', n=2)
    check('NoValidHost for two', all(s['status'] == 'ERROR' for s in found))
    delete(*[s['id'] for s in found])


def p_boot_host():
    s = boot('forced', availability_zone='nova:fake-003')[0]
    check('forced host nova:fake-003', s['status'] == 'ACTIVE' and host(s) == 'fake-003', host(s))
    s2 = boot('requested', host='fake-004', hypervisor_hostname='fake-004')[0]
    check('requested host (2.74)', s2['status'] == 'ACTIVE' and host(s2) == 'fake-004', host(s2))
    delete(s['id'], s2['id'])


def p_traits():
    flavor('m1.trait', extra={'trait:COMPUTE_IMAGE_TYPE_RAW': 'required', 'trait:HW_CPU_X86_SGX': 'forbidden'})
    s = boot('trait', 'm1.trait')[0]
    check('flavor with required and forbidden traits', s['status'] == 'ACTIVE', host(s))
    flavor('m1.granular', extra={'resources1:VCPU': '1', 'resources:VCPU': '0', 'group_policy': 'none'})
    s2 = boot('granular', 'm1.granular')[0]
    check('flavor with a granular group', s2['status'] == 'ACTIVE', host(s2) or s2.get('fault', {}).get('message'))
    s3 = boot('badtrait', flavor_name_bad())[0]
    check('trait nobody has: ERROR', s3['status'] == 'ERROR')
    delete(s['id'], s2['id'], s3['id'])


def flavor_name_bad():
    flavor('m1.badtrait', extra={'trait:HW_GPU_API_VULKAN': 'required'})
    return 'm1.badtrait'


def p_aggregates():
    a = c.nova('POST', '/os-aggregates', {'aggregate': {'name': 'rack1', 'availability_zone': 'az1'}})['aggregate']['id']
    for h in ('fake-001', 'fake-002'):
        c.nova('POST', '/os-aggregates/%s/action' % a, {'add_host': {'host': h}})
    c.nova('POST', '/os-aggregates/%s/action' % a, {'set_metadata': {'metadata': {'ssd': 'true'}}})
    time.sleep(2)
    s = boot('inaz', availability_zone='az1')[0]
    check('boot in availability zone az1', s['status'] == 'ACTIVE' and host(s) in ('fake-001', 'fake-002'), host(s))
    check('the server shows its zone', server(s['id'])['OS-EXT-AZ:availability_zone'] == 'az1')
    c.nova('POST', '/servers', {'server': {'name': 'nozone', 'flavorRef': flavor('m1.tiny'), 'imageRef': image(), 'networks': 'none', 'availability_zone': 'nowhere'}}, ok=(400,))
    check('unknown zone is refused by the API', True)
    delete(s['id'])
    c.nova('PUT', '/os-aggregates/%s' % a, {'aggregate': {'name': 'rack1b'}})
    for h in ('fake-001', 'fake-002'):
        c.nova('POST', '/os-aggregates/%s/action' % a, {'remove_host': {'host': h}})
    c.nova('DELETE', '/os-aggregates/%s' % a)


def p_groups():
    g = c.nova('POST', '/os-server-groups', {'server_group': {'name': 'anti', 'policy': 'anti-affinity'}})['server_group']['id']
    found = boot('anti', n=4, hints={'group': g})
    check('anti-affinity: four servers on four hosts', spread(found) == 4, ' '.join(sorted(host(s) or '-' for s in found)))
    g2 = c.nova('POST', '/os-server-groups', {'server_group': {'name': 'aff', 'policy': 'affinity'}})['server_group']['id']
    f2 = boot('affin', n=3, hints={'group': g2})
    check('affinity: three servers on one host', spread(f2) == 1, ' '.join(sorted(host(s) or '-' for s in f2)))
    g3 = c.nova('POST', '/os-server-groups', {'server_group': {'name': 'soft', 'policy': 'soft-anti-affinity'}})['server_group']['id']
    f3 = boot('softa', n=2, hints={'group': g3})
    check('soft anti-affinity: two servers on two hosts', spread(f3) == 2, ' '.join(sorted(host(s) or '-' for s in f3)))
    hosts = len([s for s in services().values() if s['state'] == 'up'])
    if hosts <= 20:
        f4 = boot('toomany', n=hosts + 1, hints={'group': c.nova('POST', '/os-server-groups', {'server_group': {'name': 'anti2', 'policy': 'anti-affinity'}})['server_group']['id']})
        check('one more anti-affine server than hosts: none is placed', all(s['status'] == 'ERROR' for s in f4), f4[0].get('fault', {}).get('message'))
        delete(*[s['id'] for s in f4])
    delete(*[s['id'] for s in found + f2 + f3])


def p_resize():
    s = boot('resize')[0]
    before = host(s)
    action(s['id'], {'resize': {'flavorRef': flavor('m1.small')}})
    s = wait(s['id'], ('VERIFY_RESIZE',))
    check('resize to another flavor', s['status'] == 'VERIFY_RESIZE' and host(s) != before, '%s -> %s' % (before, host(s)))
    action(s['id'], {'confirmResize': None})
    s = wait(s['id'], ('ACTIVE',))
    check('confirm', s['status'] == 'ACTIVE')
    before = host(s)
    action(s['id'], {'resize': {'flavorRef': flavor('m1.medium')}})
    s = wait(s['id'], ('VERIFY_RESIZE',))
    action(s['id'], {'revertResize': None})
    s = wait(s['id'], ('ACTIVE',))
    check('resize and revert', s['status'] == 'ACTIVE' and host(s) == before, host(s))


def p_cold_migrate():
    s = boot('cold', availability_zone='nova:fake-002')[0]   # in cell1, where the targets are
    before = host(s)
    action(s['id'], {'migrate': None})
    s = wait(s['id'], ('VERIFY_RESIZE',))
    check('cold migration', s['status'] == 'VERIFY_RESIZE' and host(s) != before, '%s -> %s' % (before, host(s)))
    action(s['id'], {'confirmResize': None})
    check('confirm', wait(s['id'], ('ACTIVE',))['status'] == 'ACTIVE')
    target = 'fake-005' if host(s) != 'fake-005' else 'fake-006'
    action(s['id'], {'migrate': {'host': target}})
    s = wait(s['id'], ('VERIFY_RESIZE',))
    check('cold migration to a given host', host(s) == target, host(s))
    action(s['id'], {'confirmResize': None})
    wait(s['id'], ('ACTIVE',))


def p_live_migrate():
    s = boot('live', availability_zone='nova:fake-002')[0]
    before = host(s)
    action(s['id'], {'os-migrateLive': {'host': None, 'block_migration': 'auto'}})
    s = wait_moved(s['id'], before)
    check('live migration, scheduler chooses', s['status'] == 'ACTIVE' and host(s) != before, '%s -> %s' % (before, host(s)))
    target = 'fake-007' if host(s) != 'fake-007' else 'fake-008'
    action(s['id'], {'os-migrateLive': {'host': target, 'block_migration': 'auto'}})
    s = wait_moved(s['id'], host(s))
    check('live migration to a given host', host(s) == target, host(s))


def p_shelve():
    s = boot('shelve')[0]
    action(s['id'], {'shelve': None})
    s = wait(s['id'], ('SHELVED_OFFLOADED',))
    check('shelve offloads', s['status'] == 'SHELVED_OFFLOADED' and not allocations(s['id']), s['status'])
    action(s['id'], {'unshelve': None})
    s = wait(s['id'], ('ACTIVE',))
    check('unshelve schedules again', s['status'] == 'ACTIVE', host(s))


def p_rebuild():
    s = boot('rebuild')[0]
    other = image('other')
    action(s['id'], {'rebuild': {'imageRef': other}})   # the answer already says REBUILD
    s = wait(s['id'], ('ACTIVE',))
    check('rebuild with another image (goes through the scheduler)', s['status'] == 'ACTIVE' and s['image']['id'] == other)


def p_disable():
    sv = services()['fake-009']
    c.nova('PUT', '/os-services/' + sv['id'], {'status': 'disabled', 'disabled_reason': 'scenario'})
    time.sleep(2)
    found = boot('disabled', n=5)
    check('no server on the disabled host', all(host(s) != 'fake-009' for s in found), ' '.join(host(s) or '-' for s in found))
    c.nova('PUT', '/os-services/' + sv['id'], {'status': 'enabled'})
    time.sleep(2)
    delete(*[s['id'] for s in found])


def p_evacuate():
    """Stops one nova-compute (recorded pid of the extra fleet), evacuates its server, starts it again."""
    subprocess.run(['bash', '-c', '. "$CODE/env.sh"; FLEET_FIRST=900 start fleet-extra /usr/bin/python3 "$CODE/lib/fleet.py" "$STACK/etc/nova/compute-cell1.conf" fake- 1'], check=True)
    wait_host('fake-900')
    s = boot('evac', availability_zone='nova:fake-900')[0]
    check('server on the host to fail', host(s) == 'fake-900', host(s))
    subprocess.run(['bash', '-c', '. "$CODE/env.sh"; stop fleet-extra'], check=True)
    sv = services()['fake-900']
    c.nova('PUT', '/os-services/' + sv['id'], {'forced_down': True})
    action(s['id'], {'evacuate': {}})
    s = wait_moved(s['id'], 'fake-900')
    check('evacuated to another host', s['status'] == 'ACTIVE' and host(s) != 'fake-900', host(s))
    # Placement keeps the allocation of the host that failed; cellgate's claims end when the server is confirmed elsewhere.
    held = 1 if os.environ['PLACEMENT'] == 'cellgate' else 2
    t0 = time.time()   # cellgate confirms the claim by Nova's tables, which it reads every two seconds
    while len(allocations(s['id'])) != held and time.time() - t0 < 60:
        time.sleep(0.5)
    check('it holds %d of its two hosts until the failed one is back' % held, len(allocations(s['id'])) == held, str(len(allocations(s['id']))))
    subprocess.run(['bash', '-c', '. "$CODE/env.sh"; FLEET_FIRST=900 start fleet-extra /usr/bin/python3 "$CODE/lib/fleet.py" "$STACK/etc/nova/compute-cell1.conf" fake- 1'], check=True)
    t0 = time.time()
    back(sv['id'])
    check('the returning host has no allocation of it', len(allocations(s['id'])) == 1, '%.0f s' % (time.time() - t0))
    wait_host('fake-900')
    subprocess.run(['bash', '-c', '. "$CODE/env.sh"; stop fleet-extra'], check=True)
    c.nova('DELETE', '/os-services/' + services()['fake-900']['id'])
    rps = c.call('GET', 'placement', '/resource_providers?name=fake-900')['resource_providers']
    check('deleting the service deletes its provider', not rps)


def wait_host(h, timeout=240):
    t0 = time.time()
    while time.time() - t0 < timeout:
        if services().get(h, {}).get('state') == 'up':
            rps = c.call('GET', 'placement', '/resource_providers?resources=VCPU:1&name=' + h)['resource_providers']
            if rps:
                break
        time.sleep(1)
    subprocess.run(['nova-manage', '--config-file', STACK + '/etc/nova/nova.conf', 'cell_v2', 'discover_hosts', '--by-service'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while os.environ['SCHEDULER'] != 'nova' and time.time() - t0 < timeout and h not in claims.hosts():
        time.sleep(0.2)   # cellgate reads Nova's tables every two seconds


def p_reschedule():
    """A host whose driver fails the first spawn of every server: the cell conductor claims an alternate."""
    fleet_extra(901, 'fake.FakeRescheduleDriver')
    others = boot('filler', n=12)     # the empty host is now the best one
    s = boot('resched')[0]
    check('the build is rescheduled to an alternate', s['status'] == 'ACTIVE' and host(s) != 'fake-901', host(s))
    delete(s['id'], *[o['id'] for o in others])
    fleet_extra_stop(901)


def p_manage():
    for cmd, want, what in (('sync_aggregates', 0, ''), ('heal_allocations', 4, ' finds nothing to heal'), ('audit', 0, ' finds no orphan')):
        r = subprocess.run(['nova-manage', '--config-file', STACK + '/etc/nova/nova.conf', 'placement', cmd], capture_output=True, text=True)
        check('nova-manage placement %s%s' % (cmd, what), r.returncode == want, 'exit %d %s' % (r.returncode, r.stdout.strip().splitlines()[-1:] if r.returncode != want else ''))
    differ = usage_differences()
    check("the providers' usage is that of their servers", not differ, '; '.join(differ[:3]))
    r = subprocess.run(['nova-status', '--config-file', STACK + '/etc/nova/nova.conf', 'upgrade', 'check'], capture_output=True, text=True)
    check('nova-status upgrade check', r.returncode in (0, 1), 'exit %d' % r.returncode)


def p_osc():
    """The commands of osc-placement: reads, and the life of a provider beside the computes."""
    def done(*command, ok=True):
        r = subprocess.run(['openstack', *command], capture_output=True, text=True)
        if (r.returncode == 0) != ok:
            raise RuntimeError('openstack %s: %s' % (' '.join(command), r.stderr.strip()))
        return r.stdout if ok else r.stderr.strip()

    def osc(*command):
        return json.loads(done(*command, '-f', 'json'))

    s = boot('osc')[0]
    rp = {r['name']: r['uuid'] for r in osc('resource', 'provider', 'list')}
    check('osc: resource provider list, show', osc('resource', 'provider', 'show', rp[host(s)], '--allocations')['allocations'].get(s['id']))
    check('osc: inventory list, show', {r['resource_class'] for r in osc('resource', 'provider', 'inventory', 'list', rp[host(s)])} == {'VCPU', 'MEMORY_MB', 'DISK_GB'}
          and osc('resource', 'provider', 'inventory', 'show', rp[host(s)], 'VCPU')['total'] == 1000)
    check('osc: usage show', {r['resource_class']: r['usage'] for r in osc('resource', 'provider', 'usage', 'show', rp[host(s)])}['VCPU'] >= 1)
    check('osc: allocation show', [r['resource_provider'] for r in osc('resource', 'provider', 'allocation', 'show', s['id'])] == [rp[host(s)]])
    check('osc: usage of the project', osc('resource', 'usage', 'show', s['tenant_id']))
    found = osc('allocation', 'candidate', 'list', '--resource', 'VCPU=1', '--resource', 'MEMORY_MB=512')
    check('osc: allocation candidate list', {r['resource provider'] for r in found} >= {rp['fake-001']}, '%d candidates' % len(found))
    delete(s['id'])

    osc('resource', 'class', 'list')
    done('resource', 'class', 'set', 'CUSTOM_OSC')
    done('trait', 'create', 'CUSTOM_OSC')
    check('osc: trait list, resource class show', {'name': 'CUSTOM_OSC'} in osc('trait', 'list') and osc('resource', 'class', 'show', 'CUSTOM_OSC')['name'] == 'CUSTOM_OSC')
    root = osc('resource', 'provider', 'create', 'osc-root', *(['--uuid', str(uuid.uuid4())]))['uuid']
    child = osc('resource', 'provider', 'create', 'osc-child', '--parent-provider', root)['uuid']
    check('osc: resource provider create, set', osc('resource', 'provider', 'set', child, '--name', 'osc-kid')['name'] == 'osc-kid')
    check('osc: inventory set', len(osc('resource', 'provider', 'inventory', 'set', child, '--resource', 'CUSTOM_OSC=4', '--resource', 'CUSTOM_OSC:max_unit=2')) == 1)
    check('osc: trait set', osc('resource', 'provider', 'trait', 'set', child, '--trait', 'CUSTOM_OSC') == [{'name': 'CUSTOM_OSC'}])
    generation = str(osc('resource', 'provider', 'show', root)['generation'])
    check('osc: aggregate set', osc('resource', 'provider', 'aggregate', 'set', root, '--aggregate', child, '--generation', generation))
    holder = str(uuid.uuid4())
    check('osc: allocation set', osc('resource', 'provider', 'allocation', 'set', holder, '--allocation', 'rp=%s,CUSTOM_OSC=2' % child,
                                     '--project-id', 'p', '--user-id', 'u', '--consumer-type', 'OSC'))
    refused = done('resource', 'provider', 'delete', child, ok=False)
    check('osc: a provider in use is not deleted', 'allocations' in refused.lower(), refused)
    for command in (('resource', 'provider', 'allocation', 'delete', holder), ('resource', 'provider', 'trait', 'delete', child),
                    ('resource', 'provider', 'inventory', 'delete', child), ('resource', 'provider', 'delete', child),
                    ('resource', 'provider', 'delete', root), ('resource', 'class', 'delete', 'CUSTOM_OSC'), ('trait', 'delete', 'CUSTOM_OSC')):
        done(*command)
    check('osc: all deleted again', not providers('osc-'))


def usage_differences():
    """What Placement says is in use of the computes' providers, against the flavors of their servers."""
    want = {}
    for s in c.nova('GET', '/servers/detail')['servers']:
        if host(s):
            w, f = want.setdefault(host(s), {'VCPU': 0, 'MEMORY_MB': 0, 'DISK_GB': 0}), s['flavor']
            for resource, n in (('VCPU', f['vcpus']), ('MEMORY_MB', f['ram']), ('DISK_GB', f['disk'] + f['ephemeral'])):
                w[resource] += n
    differ = []
    for rp in c.call('GET', 'placement', '/resource_providers')['resource_providers']:
        used = c.call('GET', 'placement', '/resource_providers/%s/usages' % rp['uuid'])['usages']
        if {k: n for k, n in used.items() if n} != {k: n for k, n in want.get(rp['name'], {}).items() if n}:
            differ.append('%s: %s, its servers have %s' % (rp['name'], used, want.get(rp['name'])))
    return differ


def fleet_extra(number, driver='', conf='', n=1):
    """More nova-computes, of another driver class."""
    env = dict(os.environ, FLEET_DRIVER=driver, FLEET_FIRST=str(number), FLEET_CONF=conf)
    subprocess.run(['bash', '-c', '. "$CODE/env.sh"; start fleet-extra /usr/bin/python3 "$CODE/lib/fleet.py" "$STACK/etc/nova/compute-cell1.conf" fake- %d' % n], check=True, env=env)
    for i in range(number, number + n):
        wait_host('fake-%d' % i)


def fleet_extra_stop(number, n=1):
    subprocess.run(['bash', '-c', '. "$CODE/env.sh"; stop fleet-extra'], check=True)
    for i in range(number, number + n):
        c.nova('DELETE', '/os-services/' + services()['fake-%d' % i]['id'])


def providers(prefix):
    return [r for r in c.call('GET', 'placement', '/resource_providers')['resource_providers'] if r['name'].startswith(prefix)]


def p_nested():
    """A host with a child provider and a custom resource class."""
    fleet_extra(902, 'fake.MediumFakeDriverWithNestedCustomResources')
    check('the tree has a child', len(providers('fake-902')) == 2, ' '.join(r['name'] for r in providers('fake-902')))
    flavor('m1.magic', extra={'resources:CUSTOM_MAGIC': '1'})
    s = boot('magic', 'm1.magic')[0]
    check('custom resource on the child provider', s['status'] == 'ACTIVE' and len(allocations(s['id'])) == 2, host(s))
    flavor('m1.magic2', extra={'resources1:CUSTOM_MAGIC': '1', 'resources2:CUSTOM_MAGIC': '1', 'group_policy': 'isolate'})
    s2 = boot('magic2', 'm1.magic2')[0]
    check('two isolated groups on one child: refused', s2['status'] == 'ERROR')
    delete(s['id'], s2['id'])
    fleet_extra_stop(902)
    check('deleting the service deletes the whole tree', not providers('fake-902'))


def p_pci():
    """PCI devices reported to Placement (new in Nova 26)."""
    fleet_extra(903, 'fake.FakeDriverWithPciResources', '[pci]\\nreport_in_placement = true\\n' + ''.join(
        'device_spec = {"address": "0000:0%d:00.1", "resource_class": "CUSTOM_NIC_VF", "traits": "CUSTOM_FAST"}\\n' % i for i in (1, 2, 3)))
    check('a provider per PF', len(providers('fake-903')) == 4, ' '.join(r['name'] for r in providers('fake-903')))
    fleet_extra_stop(903)


def rows(query):
    """Rows of the database of cell1."""
    out = subprocess.run(['mariadb', '--socket=' + STACK + '/mysql/mysqld.sock', '-uroot', '-NB', 'nova_cell1', '-e', query], check=True, capture_output=True, text=True)
    return [line.split('\t') for line in out.stdout.splitlines()]


def devices():
    """server: [(host, address)] of the PCI devices that Nova gave out."""
    found = {}
    for h, address, i in rows("select n.host, d.address, d.instance_uuid from pci_devices d join compute_nodes n on n.id = d.compute_node_id "
                              "where d.deleted = 0 and n.deleted = 0 and d.status <> 'available'"):
        found.setdefault(i, []).append((h, address))
    return found


def pinned(ids):
    """server: [(host, NUMA cell, CPU)] of the CPUs that Nova pinned."""
    found = {}
    for i, h, text in rows("select i.uuid, i.host, x.numa_topology from instances i join instance_extra x on x.instance_uuid = i.uuid "
                           "where i.deleted = 0 and i.host is not null and x.numa_topology is not null"):
        if i in ids:
            cells = [cell['nova_object.data'] for cell in json.loads(text)['nova_object.data']['cells']]
            found[i] = [(h, cell['id'], cpu) for cell in cells for cpu in cell['cpu_pinning_raw'].values()]
    return found


def shared(held):
    """What more than one server holds."""
    every = [x for one in held.values() for x in one]
    return sorted({x for x in every if every.count(x) > 1})


def boot_at_once(name, fl, n):
    """n servers, one request each, all at once: those that are ACTIVE, and the faults of the others."""
    def post(i):
        return c.nova('POST', '/servers', {'server': {'name': '%s-%d' % (name, i), 'flavorRef': flavor(fl), 'imageRef': image(), 'networks': 'none'}})['server']['id']

    with concurrent.futures.ThreadPoolExecutor(n) as ex:
        ids = list(ex.map(post, range(n)))
    found = [wait(i, ('ACTIVE', 'ERROR')) for i in ids]
    return [s for s in found if s['status'] == 'ACTIVE'], [s.get('fault', {}).get('message', s['status']) for s in found if s['status'] != 'ACTIVE'], ids


def rescheduled(ids):
    """Faults of servers that are ACTIVE: builds that a compute refused."""
    return [f for i, f in rows('select instance_uuid, message from instance_faults') if i in ids]


def free_again(vfs):
    """Waits until the computes report that their CPUs and devices are free: at once, or with the next periodic report, as after a move."""
    t0 = time.time()
    while time.time() - t0 < 150:
        pools = [json.loads(text)['nova_object.data']['objects'] for text, in rows("select pci_stats from compute_nodes where deleted = 0 and numa_topology is not null")]
        left = vfs - sum(pool['nova_object.data']['count'] for host in pools for pool in host)
        if not devices() and not left and not rows("select host from compute_nodes where deleted = 0 and numa_topology regexp '\"pinned_cpus\": .[0-9]'"):
            break
        time.sleep(0.5)
    else:
        return False, '%s, %d devices are missing' % (devices(), left)
    time.sleep(3)   # cellgate reads Nova's tables every two seconds
    return True, '%.0f s' % (time.time() - t0)


def p_hardware():
    """Two hosts with PCI devices, dedicated CPUs, NUMA cells and a GPU each (hardware_driver.py), all of which are given out."""
    fleet_extra(905, 'fake.HardwareDriver', '[pci]\\ndevice_spec = {"vendor_id": "15b3", "product_id": "1018"}\\n', 2)
    hosts = {'fake-905', 'fake-906'}
    vfs, vgpus = 6, 4   # of both hosts
    flavor('hw.vf', extra={'pci_passthrough:alias': 'vf:1'})
    flavor('hw.vf.large', ram=1024, extra={'pci_passthrough:alias': 'vf:1'})
    flavor('hw.pinned', vcpus=2, extra={'hw:cpu_policy': 'dedicated'})
    flavor('hw.numa', vcpus=4, extra={'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '2'})
    flavor('hw.vgpu', extra={'resources:VGPU': '1'})

    found = [boot('vf%d' % n, 'hw.vf')[0] for n in range(vfs)]
    ids = [s['id'] for s in found]
    held = devices()
    check('%d servers with a PCI device are ACTIVE' % vfs, [s['status'] for s in found] == ['ACTIVE'] * vfs and {host(s) for s in found} == hosts, ' '.join(host(s) or '-' for s in found))
    check('each has a device of its own', set(held) == set(ids) and all(len(d) == 1 for d in held.values()) and not shared(held), ' '.join('%s/%s' % d[0] for d in held.values()))
    s = boot('vf-none', 'hw.vf')[0]
    check('no device is left: refused', s['status'] == 'ERROR' and 'No valid host' in s['fault']['message'], s.get('fault', {}).get('message'))
    delete(s['id'], *ids)
    check('delete gives the devices back', *free_again(vfs))

    good, faults, ids = boot_at_once('vf-at-once', 'hw.vf', 12)
    held = devices()
    check('12 boots at once for %d devices: %d are ACTIVE' % (vfs, vfs), len(good) == vfs and all('No valid host' in f for f in faults), '%d ACTIVE; %s' % (len(good), set(faults)))
    check('each has a device of its own, and no compute refused one', set(held) == {s['id'] for s in good} and not shared(held) and not rescheduled({s['id'] for s in good}),
          '%s %s' % (shared(held), rescheduled({s['id'] for s in good})))
    mover = next(s for s in good if host(s) == 'fake-905')
    room = next(s for s in good if host(s) == 'fake-906')
    action(mover['id'], {'migrate': None}, ok=(202, 400))
    s = wait(mover['id'], ('ACTIVE',))
    check('cold migration with no free device is refused', s['status'] == 'ACTIVE' and host(s) == 'fake-905' and len(devices()[s['id']]) == 1, '%s on %s' % (s['status'], host(s)))
    delete(room['id'])
    for what, body, confirm in (('cold migration', {'migrate': None}, True), ('resize, reverted,', {'resize': {'flavorRef': flavor('hw.vf.large')}}, False),
                                ('resize', {'resize': {'flavorRef': flavor('hw.vf.large')}}, True)):
        before = host(server(mover['id']))
        action(mover['id'], body)
        s = wait(mover['id'], ('VERIFY_RESIZE',))
        both = {h for h, _ in devices()[s['id']]}
        action(s['id'], {'confirmResize' if confirm else 'revertResize': None}, ok=(202, 204))
        after = wait(mover['id'], ('ACTIVE',))
        held = devices()
        check('%s of a server with a device' % what, s['status'] == 'VERIFY_RESIZE' and both == hosts and [h for h, _ in held[s['id']]] == [host(after)]
              and (host(after) != before) == confirm and not shared(held), '%s -> %s, then %s' % (before, host(s), host(after)))
        time.sleep(3)   # cellgate reads Nova's tables every two seconds
    delete(*ids)
    check('delete gives the devices back', *free_again(vfs))

    s = boot('numa', 'hw.numa')[0]
    cpus = pinned({s['id']}).get(s['id'], [])
    check('two NUMA cells with dedicated CPUs', s['status'] == 'ACTIVE' and sorted(cell for _, cell, _ in cpus) == [0, 0, 1, 1], '%s %s' % (host(s), cpus))
    action(s['id'], {'migrate': None})
    s = wait(s['id'], ('VERIFY_RESIZE',))
    action(s['id'], {'confirmResize': None})
    s = wait(s['id'], ('ACTIVE',))
    cpus = pinned({s['id']}).get(s['id'], [])
    check('cold migration of it', {h for h, _, _ in cpus} == {host(s)} and sorted(cell for _, cell, _ in cpus) == [0, 0, 1, 1], '%s %s' % (host(s), cpus))
    delete(s['id'])
    check('delete gives its CPUs back', *free_again(vfs))
    good, faults, ids = boot_at_once('pinned', 'hw.pinned', 12)
    held = pinned({s['id'] for s in good})
    check('12 boots at once for the dedicated CPUs of 8: 8 are ACTIVE', len(good) == 8 and all('No valid host' in f for f in faults), '%d ACTIVE; %s' % (len(good), set(faults)))
    check('each has CPUs of its own, and no compute refused one', sum(len(x) for x in held.values()) == 16 and not shared(held) and not rescheduled(set(held)), '%s %s' % (shared(held), rescheduled(set(held))))
    delete(*ids)
    check('delete gives the CPUs back', *free_again(vfs))

    good, faults, ids = boot_at_once('vgpu', 'hw.vgpu', 6)
    gpus = {r['uuid'] for r in providers('fake-90') if '_pci_' in r['name']}
    on = [rp for s in good for rp, a in allocations(s['id']).items() if 'VGPU' in a['resources']]
    check('6 boots at once for %d VGPUs: %d are ACTIVE' % (vgpus, vgpus), len(good) == vgpus and all('No valid host' in f for f in faults), '%d ACTIVE; %s' % (len(good), set(faults)))
    check('each holds one of a child provider', sorted(on) == sorted(list(gpus) * 2))
    delete(*ids)
    check('delete gives the VGPUs back', not any(c.call('GET', 'placement', '/resource_providers/%s/usages' % g)['usages'].get('VGPU') for g in gpus))
    fleet_extra_stop(905, 2)


def p_cell2():
    """Only with HOSTS2 > 0: a host of the second cell; its conductor and computes have no way up."""
    if 'cell2-001' not in services():
        return
    s = boot('incell2', availability_zone='nova:cell2-001')[0]
    check('boot in cell2', s['status'] == 'ACTIVE' and host(s) == 'cell2-001', host(s))
    action(s['id'], {'migrate': None})
    s = wait(s['id'], ('VERIFY_RESIZE',))
    check('cold migration inside cell2', s['status'] == 'VERIFY_RESIZE' and host(s).startswith('cell2-'), host(s))
    action(s['id'], {'confirmResize': None})
    wait(s['id'], ('ACTIVE',))
    check('delete it', delete(s['id']))


def p_delete():
    ids = [s['id'] for s in c.nova('GET', '/servers')['servers']]
    check('delete the remaining %d servers' % len(ids), delete(*ids))
    time.sleep(3)
    left = [rp['name'] for rp in c.call('GET', 'placement', '/resource_providers')['resource_providers']
            if any(c.call('GET', 'placement', '/resource_providers/%s/usages' % rp['uuid'])['usages'].values())]
    check('no usage is left in Placement', not left, ' '.join(left))
    if os.environ['SCHEDULER'] != 'nova':
        t0 = time.time()
        while time.time() - t0 < 330 and claims.claims():   # a lease of a build that failed is 300 s
            time.sleep(2)
        check('no claim is left in cellgate', not claims.claims(), '%.0f s' % (time.time() - t0))


def p_many():
    """SERVERS servers through every move, WAVE of them at once; not one of the phases that run by default."""
    n, wave = int(os.environ.get('SERVERS', '200')), int(os.environ.get('WAVE', '16'))
    fleet_extra(904)
    fl, im = flavor('m1.tiny'), image()
    small = flavor('m1.small')

    def many():
        return {s['id']: s for s in c.nova('GET', '/servers/detail?name=^many-')['servers']}

    def until(ids, ok):
        """Waits until the servers are as wanted; what is not when they stand still is seen at the end of the step."""
        t0 = time.time()
        while time.time() - t0 < 900:
            found = many()
            if all(found[i]['status'] == 'ERROR' or ok(found[i]) and not found[i]['OS-EXT-STS:task_state'] for i in ids):
                break
            time.sleep(1)
        return [i for i in ids if found[i]['status'] != 'ERROR' and ok(found[i])]

    def step(what, ids, *parts):
        """For each wave of the servers: the parts, each an action and what it must come to."""
        began, good = time.time(), []
        for k in range(0, len(ids), wave):
            todo = ids[k:k + wave]
            for act, ok in parts:
                with concurrent.futures.ThreadPoolExecutor(8) as ex:
                    list(ex.map(lambda i: action(i, act), todo))
                todo = until(todo, ok)
            good += todo
        wrong = [s for i, s in many().items() if i in ids and i not in good]
        check('%d servers %s' % (len(ids), what), len(good) == len(ids), '%.0f s%s' % (time.time() - began, ''.join(
            '; %s on %s is %s: %s' % (s['name'], host(s), s['status'], server(s['id']).get('fault', {}).get('message')) for s in wrong[:5])))
        return good

    def active(s):
        return s['status'] == 'ACTIVE'

    def resized(s):
        return s['status'] == 'VERIFY_RESIZE'

    began, ids = time.time(), []
    for k in range(0, n, wave):
        made = [c.nova('POST', '/servers', {'server': {'name': 'many-%d' % i, 'flavorRef': fl, 'imageRef': im, 'networks': 'none'}})['server']['id']
                for i in range(k, min(n, k + wave))]
        ids += until(made, active)
    check('%d servers booted' % n, len(ids) == n, '%.0f s' % (time.time() - began))
    confirm = ({'confirmResize': None}, active)
    step('resized', ids, ({'resize': {'flavorRef': small}}, resized), confirm)
    step('migrated', ids, ({'migrate': None}, resized), confirm)
    # All in cell1 to one host, so that all are lost with it: a server never leaves its cell.
    here = [i for i, s in many().items() if host(s).startswith('fake-')]
    step('migrated live to the host of their choice', [i for i in here if host(many()[i]) != 'fake-904'],
         ({'os-migrateLive': {'host': 'fake-904', 'block_migration': 'auto'}}, lambda s: active(s) and host(s) == 'fake-904'))

    lost = [i for i, s in many().items() if host(s) == 'fake-904']
    check('the host has the servers of cell1', len(lost) == len(here), '%d of %d' % (len(lost), len(here)))
    subprocess.run(['bash', '-c', '. "$CODE/env.sh"; stop fleet-extra'], check=True)
    service = services()['fake-904']['id']
    c.nova('PUT', '/os-services/' + service, {'forced_down': True})
    step('evacuated', lost, ({'evacuate': {}}, lambda s: active(s) and host(s) != 'fake-904'))
    env = dict(os.environ, FLEET_FIRST='904')
    subprocess.run(['bash', '-c', '. "$CODE/env.sh"; start fleet-extra /usr/bin/python3 "$CODE/lib/fleet.py" "$STACK/etc/nova/compute-cell1.conf" fake- 1'], check=True, env=env)
    back(service, 600)
    wait_host('fake-904')
    p_manage()
    p_delete()
    fleet_extra_stop(904)


def back(service, seconds=120):
    """Takes a host up again: refused before it is back and has destroyed what was evacuated."""
    t0 = time.time()
    while time.time() - t0 < seconds:
        try:
            c.nova('PUT', '/os-services/' + service, {'forced_down': False})
            return
        except RuntimeError:
            time.sleep(2)


ALL = ['boot', 'boot_multi', 'boot_fail', 'boot_host', 'traits', 'aggregates', 'groups', 'resize', 'cold_migrate',
       'live_migrate', 'shelve', 'rebuild', 'disable', 'evacuate', 'reschedule', 'nested', 'pci', 'hardware', 'cell2', 'osc', 'manage', 'delete']


def main():
    for name in sys.argv[1:] or ALL:
        print('--- ' + name, flush=True)
        try:
            globals()['p_' + name]()
        except Exception:
            traceback.print_exc()
            check(name + ' ran to its end', False)
    print('%d of %d checks passed' % (sum(results), len(results)))
    sys.exit(0 if all(results) else 1)


if __name__ == '__main__':
    main()
