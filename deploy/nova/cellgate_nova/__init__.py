# SPDX-License-Identifier: Apache-2.0
"""The plug-in that connects conductors to cellgate.

Nova's conductor asks for hosts through one class,
``nova.scheduler.client.query.SchedulerQueryClient``. ``install()`` puts a
subclass in its place whose ``select_destinations`` asks cellgate; everything
else of the class stays Nova's. ``python3 -m cellgate_nova nova-conductor ...``
does that and then runs Nova's own entry point.
"""


def install(conf=None):
    """Make conductors of this process ask cellgate.

    Call it after Nova's modules may be imported (eventlet has patched what it
    patches) and before the conductor's manager is made. Raises ValueError
    when section [cellgate] cannot work; options themselves are read with the
    first request if Nova's files are not parsed yet.
    """
    from cellgate_nova import client

    return client.install(conf)


def uninstall():
    """Put Nova's own class back."""
    from cellgate_nova import client

    client.uninstall()
