# SPDX-License-Identifier: Apache-2.0
"""cellgate's errors, read from a gRPC status."""

from google.protobuf import message as protobuf_message

from cellgate_nova import schema

# Kinds after which the same request may be sent again, with the same
# request_id (docs/reference/api.md).
_REPEAT = {'CELL_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'CONTENDED', 'OVERLOADED'}
# Codes of a call that no cellgate answered. A gateway that is not there, or
# too slow, is another gateway's chance.
_NO_ANSWER = {'UNAVAILABLE', 'DEADLINE_EXCEEDED', 'CANCELLED'}


class Refusal(Exception):
    """What a call ended with.

    code: the gRPC code's name. kind: cellgate's, '' when no cellgate
    answered. wait: seconds to wait before asking again, None when not told.
    """

    def __init__(self, code, message, kind='', metadata=None, wait=None,
                 fields=(), no_valid_host=None):
        super().__init__('%s: %s' % (kind or code, message))
        self.code = code
        self.kind = kind
        self.message = message
        self.metadata = metadata or {}
        self.wait = wait
        self.fields = list(fields)
        self.no_valid_host = no_valid_host

    @property
    def repeatable(self):
        return self.kind in _REPEAT or (
            not self.kind and self.code in _NO_ANSWER)

    @property
    def elsewhere(self):
        """Another gateway may answer."""
        return not self.kind and self.code in _NO_ANSWER

    @property
    def of_pending_claim(self):
        """The claim that an ALREADY_EXISTS names is pending."""
        return self.metadata.get('claim_state') == 'PENDING'

    @classmethod
    def of(cls, code, message, details):
        """From a status; details is the value of grpc-status-details-bin."""
        told = {}
        try:
            status = schema.message('google.rpc.Status').FromString(
                details or b'')
            for d in status.details:
                name = d.type_url.rpartition('/')[2]
                if name == 'google.rpc.ErrorInfo':
                    m = schema.message(name).FromString(d.value)
                    if m.domain == 'cellgate':
                        told.update(kind=m.reason, metadata=dict(m.metadata))
                elif name == 'google.rpc.RetryInfo':
                    m = schema.message(name).FromString(d.value)
                    told['wait'] = (m.retry_delay.seconds +
                                    m.retry_delay.nanos / 1e9)
                elif name == 'google.rpc.BadRequest':
                    m = schema.message(name).FromString(d.value)
                    told['fields'] = [(v.field, v.description)
                                      for v in m.field_violations]
                elif name == 'cellgate.v1.NoValidHost':
                    m = schema.message(name).FromString(d.value)
                    told['no_valid_host'] = schema.plain(m)
        except protobuf_message.DecodeError:
            pass  # a proxy's status: the code and the message are all there is
        return cls(code, message, **told)
