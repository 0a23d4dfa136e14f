# SPDX-License-Identifier: Apache-2.0
"""OpenStack's own Placement, on SQLite and without Keystone.

    python3 realplacement.py DIRECTORY

Prints its port and serves until it is killed.
"""

import os
import socketserver
import sys
from wsgiref import simple_server


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


def main(directory):
    with open(os.path.join(directory, 'placement.conf'), 'w') as f:
        f.write('[DEFAULT]\nlog_file = %s/placement.log\n'
                '[api]\nauth_strategy = noauth2\n'
                '[placement_database]\nconnection = sqlite:///%s/p.sqlite\n'
                'sync_on_startup = true\n' % (directory, directory))
    os.environ['OS_PLACEMENT_CONFIG_DIR'] = directory
    from placement import wsgi
    server = simple_server.make_server(
        '127.0.0.1', 0, wsgi.init_application(), Server, Quiet)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == '__main__':
    main(sys.argv[1])
