#!/usr/bin/python3
"""Writes the notifications that nova-scheduler sends about recorded requests, each beside its request.

usage: notifications.py recorded.jsonl > notifications.jsonl

Needs python3-nova. Nova decodes each recorded select_destinations and notifies; no broker is needed.
Nova writes PCI requests as the attributes of its Python objects. Of these, the caller's context, which
holds its token, and the names of changed fields are left out.
"""
import contextlib
import copy
import json
import sys

import oslo_messaging
from oslo_messaging._drivers import amqpdriver, impl_rabbit

from nova import config, objects, rpc
from nova.objects import base

sent = []


class Connection:
    def notify_send(self, exchange, topic, message, retry=None):
        sent.append((exchange, topic, json.loads(message['oslo.message'])))


amqpdriver.AMQPDriverBase._get_connection = (
    lambda self, purpose=None, retry=None: contextlib.nullcontext(Connection()))

config.parse_args(['nova-scheduler'], default_config_files=[], configure_db=False)
conf = config.CONF
conf.set_override('host', 'test')
conf.set_override('transport_url', 'rabbit://localhost/')
rpc.init(conf)  # registers the options of notifications
conf.set_override('driver', ['messagingv2'], 'oslo_messaging_notifications')
rpc.init(conf)
objects.register_all()
serializer = rpc.RequestContextSerializer(base.NovaObjectSerializer())


def hardware(message):
    """The request of an instance with NUMA cells and PCI devices, which were not recorded."""
    uuid = message['args']['instance_uuids'][0]
    data = message['args']['spec_obj']['nova_object.data']
    data['numa_topology'] = objects.InstanceNUMATopology(instance_uuid=uuid, emulator_threads_policy=None, cells=[
        objects.InstanceNUMACell(id=0, cpuset=set(), pcpuset={0, 1}, cpuset_reserved=None, memory=512, pagesize=2048,
                                 cpu_topology=objects.VirtCPUTopology(sockets=1, cores=2, threads=1),
                                 cpu_pinning_raw=None, cpu_policy='dedicated', cpu_thread_policy=None)]).obj_to_primitive()
    data['pci_requests'] = objects.InstancePCIRequests(instance_uuid=uuid, requests=[
        objects.InstancePCIRequest(count=1, alias_name='nic', spec=[{'vendor_id': '8086', 'product_id': '1572'}],
                                   request_id='07a7ae8b-a4e5-4d5e-a2c4-c4c7b5b8c7a1', numa_policy=None,
                                   requester_id=None, is_new=False)]).obj_to_primitive()
    return message


def without_internals(value):
    if isinstance(value, list):
        return [without_internals(v) for v in value]
    if isinstance(value, dict):
        return {k: without_internals(v) for k, v in value.items() if k not in ('_context', '_changed_fields')}
    return value


messages = {}
for line in open(sys.argv[1]):
    recorded = json.loads(line)
    if recorded['message'].get('method') == 'select_destinations':
        messages[recorded['name']] = recorded['message']
messages['hardware'] = hardware(copy.deepcopy(messages['boot']))

for name, message in messages.items():
    request = copy.deepcopy(message)
    context = serializer.deserialize_context({
        name[len('_context_'):]: value for name, value in message.items() if name.startswith('_context_')})
    spec = serializer.deserialize_entity(context, message['args']['spec_obj'])
    del sent[:]
    rpc.get_notifier('scheduler').info(
        context, 'scheduler.select_destinations.start', {'request_spec': spec.to_legacy_request_spec_dict()})
    (exchange, topic, notification), = sent
    print(json.dumps({'name': name, 'request': request, 'exchange': exchange, 'key': topic,
                      'message': without_internals(notification)}))
