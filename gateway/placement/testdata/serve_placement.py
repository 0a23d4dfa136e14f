"""OpenStack's own Placement on SQLite, without Keystone: serve_placement.py DIRECTORY.

Prints its port, and serves until it is killed. POST /reset forgets all but standard names. Amounts that two groups take
of one inventory are added up apart for each candidate: Placement adds them up in an object that other candidates have too
(schedule/placement/testdata/placement_answers.py).
"""
import copy
import logging
import os
import sqlite3
import sys
from wsgiref import simple_server


class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


def main(directory):
    path = os.path.join(directory, 'p.sqlite')
    with open(os.path.join(directory, 'placement.conf'), 'w') as f:
        f.write('[DEFAULT]\nlog_file = %s/placement.log\n[api]\nauth_strategy = noauth2\n'
                '[placement_database]\nconnection = sqlite:///%s\nsqlite_synchronous = false\nsync_on_startup = true\n' % (directory, path))
    os.environ['OS_PLACEMENT_CONFIG_DIR'] = directory
    from placement import wsgi
    from placement.objects import research_context
    research_context.RequestWideSearchContext.copy_arr_if_needed = lambda _, arr: copy.copy(arr)
    placement = wsgi.init_application()
    logging.disable(logging.WARNING)
    database = sqlite3.connect(path)

    def reset():
        for table in ('allocations', 'consumers', 'inventories', 'resource_provider_aggregates', 'resource_provider_traits',
                      'resource_providers', 'placement_aggregates', 'projects', 'users', 'consumer_types'):
            database.execute('DELETE FROM ' + table)
        database.execute("DELETE FROM traits WHERE name LIKE 'CUSTOM!_%' ESCAPE '!'")
        database.execute('DELETE FROM resource_classes WHERE id >= 10000')
        database.commit()

    def serve(environ, start_response):
        if environ['PATH_INFO'] != '/reset':
            return placement(environ, start_response)
        reset()
        start_response('204 No Content', [])
        return []

    server = simple_server.make_server('127.0.0.1', 0, serve, simple_server.WSGIServer, Quiet)
    print(server.server_port, flush=True)
    server.serve_forever()


main(sys.argv[1])
