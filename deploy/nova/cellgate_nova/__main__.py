# SPDX-License-Identifier: Apache-2.0
"""Run a Nova service whose conductor asks cellgate.

    python3 -m cellgate_nova nova-conductor --config-file /etc/nova/nova.conf

The arguments after the name are the service's own.
"""

import importlib
import sys


def main(argv):
    if len(argv) < 2 or not argv[1].endswith('nova-conductor'):
        sys.exit('usage: python3 -m cellgate_nova nova-conductor [ARGUMENT...]')
    # oslo.config finds configuration files by the program's name.
    sys.argv = ['nova-conductor'] + argv[2:]
    # First of all: it patches for eventlet, or not, before anything else is
    # imported.
    command = importlib.import_module('nova.cmd.conductor')
    import cellgate_nova
    cellgate_nova.install()
    return command.main()


if __name__ == '__main__':
    sys.exit(main(sys.argv))
