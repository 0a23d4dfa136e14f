# SPDX-License-Identifier: Apache-2.0
"""A gateway that answers by a script, for what a real one does seldom.

    python3 fakegateway.py SCRIPT PORT [CERT KEY CLIENT_CA]

SCRIPT is a JSON list; one entry a call of SelectDestinations, the last again
and again: {"code": "UNAVAILABLE", "kind": "...", "retry": seconds} or
{"ok": true} or {"hang": true}. Prints its port, then a line for each call:
method, request_id, and the token that came.
"""

from concurrent import futures
import json
import sys
import threading

from cellgate_nova import schema
import grpc


class Gateway(grpc.GenericRpcHandler):

    def __init__(self, script):
        self.script = script
        self.lock = threading.Lock()
        self.calls = 0

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(
            lambda request, call: self.answer(details, request, call))

    def answer(self, details, request, call):
        name = details.method.rpartition('/')[2]
        token = dict(details.invocation_metadata).get('authorization', '')
        if name != 'SelectDestinations':
            self.tell(name, schema.message(
                'cellgate.v1.%sRequest' % name).FromString(request)
                .consumer_uuid, token)
            return b''
        asked = schema.message(schema.SELECT.request).FromString(request)
        self.tell(name, asked.request_id, token)
        with self.lock:
            step = self.script[min(self.calls, len(self.script) - 1)]
            self.calls += 1
        if step.get('hang'):
            over = threading.Event()
            call.add_callback(over.set)
            over.wait()
            return b''
        if step.get('ok'):
            host = '6f70656e-0000-4000-8000-0000000000a1'
            return schema.build(schema.SELECT.response, {
                'destinations': [{'instance_uuid': u, 'selected': {
                    'compute_node_uuid': host, 'service_host': 'h1',
                    'nodename': 'h1', 'cell_uuid': host, 'cell': 'cell1',
                    'claimed': True, 'claim_id': 'c-' + u,
                    'allocation_request': json.dumps(step['allocation'])
                    if 'allocation' in step else '',
                    'allocation_request_version': '1.36',
                }} for u in asked.instance_uuids]}).SerializeToString()
        status = schema.message('google.rpc.Status')(
            code=getattr(grpc.StatusCode, step['code']).value[0])
        if 'kind' in step:
            self.detail(status, 'google.rpc.ErrorInfo', {
                'reason': step['kind'], 'domain': 'cellgate',
                'metadata': step.get('metadata', {})})
        if 'retry' in step:
            self.detail(status, 'google.rpc.RetryInfo',
                        {'retry_delay': '%ss' % step['retry']})
        call.set_trailing_metadata((
            ('grpc-status-details-bin', status.SerializeToString()),))
        call.abort(getattr(grpc.StatusCode, step['code']), 'by the script')

    @staticmethod
    def detail(status, name, fields):
        status.details.add(
            type_url='type.googleapis.com/' + name,
            value=schema.build(name, fields).SerializeToString())

    def tell(self, *words):
        with self.lock:
            print(*words, flush=True)


if __name__ == '__main__':
    server = grpc.server(futures.ThreadPoolExecutor(32))
    server.add_generic_rpc_handlers((Gateway(json.loads(sys.argv[1])),))
    at = '127.0.0.1:' + sys.argv[2]
    if len(sys.argv) > 3:
        cert, key, ca = (open(path, 'rb').read() for path in sys.argv[3:])
        port = server.add_secure_port(at, grpc.ssl_server_credentials(
            [(key, cert)], root_certificates=ca, require_client_auth=True))
    else:
        port = server.add_insecure_port(at)
    print(port, flush=True)
    server.start()
    server.wait_for_termination()
