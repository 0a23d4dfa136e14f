# SPDX-License-Identifier: Apache-2.0
"""cellgate's messages, from the schema beside this file.

There is no generated code: python3-protobuf of any version from 3.21 makes
the classes from the FileDescriptorSet, in a pool of their own.
"""

import functools
import os

from google.protobuf import descriptor_pb2
from google.protobuf import descriptor_pool
from google.protobuf import json_format
from google.protobuf import message_factory


@functools.lru_cache(maxsize=None)
def _pool():
    path = os.path.join(os.path.dirname(__file__), 'schema.binpb')
    with open(path, 'rb') as f:
        files = descriptor_pb2.FileDescriptorSet.FromString(f.read())
    pool = descriptor_pool.DescriptorPool()
    for f in files.file:
        pool.Add(f)
    return pool


@functools.lru_cache(maxsize=None)
def message(name):
    """The class of a message, by its full name."""
    descriptor = _pool().FindMessageTypeByName(name)
    if hasattr(message_factory, 'GetMessageClass'):  # protobuf >= 4.22
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool()).GetPrototype(descriptor)


def build(name, fields):
    """A message from plain Python data, with the proto's field names."""
    return json_format.ParseDict(fields, message(name)())


def plain(msg):
    """A message as plain Python data, with the proto's field names.

    Enums are names, 64-bit numbers and times texts, as in proto3 JSON; fields
    without a value are there with their default.
    """
    every = 'including_default_value_fields'
    if 'always_print_fields_with_no_presence' in (
            json_format.MessageToDict.__code__.co_varnames):  # >= 5.26
        every = 'always_print_fields_with_no_presence'
    return json_format.MessageToDict(
        msg, preserving_proto_field_name=True, descriptor_pool=_pool(),
        **{every: True})


class Method(object):
    """One RPC: its path and its messages."""

    def __init__(self, service, name):
        self.name = name
        self.path = '/cellgate.v1.%s/%s' % (service, name)
        self.request = 'cellgate.v1.%sRequest' % name
        self.response = 'cellgate.v1.%sResponse' % name


SELECT = Method('Scheduler', 'SelectDestinations')
GET_CLAIM = Method('Claims', 'GetClaim')
ALTERNATE = Method('Claims', 'ClaimAlternate')
CONFIRM = Method('Claims', 'ConfirmClaim')
RELEASE = Method('Claims', 'ReleaseClaim')
