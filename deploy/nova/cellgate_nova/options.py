# SPDX-License-Identifier: Apache-2.0
"""Section [cellgate] of nova.conf."""

from oslo_config import cfg

GROUP = 'cellgate'

OPTS = [
    cfg.ListOpt(
        'endpoints', default=['127.0.0.1:9090'],
        help='gRPC addresses of gateways, host:port. The first is asked; the '
             'next when it does not answer.'),
    cfg.FloatOpt(
        'timeout', default=60.0, min=1.0,
        help='Seconds a request may take with all its repetitions; then '
             'MessagingTimeout, as when no scheduler answers.'),
    cfg.FloatOpt(
        'attempt_timeout', default=20.0, min=0.1,
        help='Seconds one call may take before the next gateway is asked.'),
    cfg.IntOpt(
        'claim_ttl', default=300, min=1, max=3600,
        help='Lease of the claims in seconds: how long a build may take until '
             'the agent of its host reports the instance.'),
    cfg.StrOpt(
        'confirm', default='agent', choices=[
            ('agent', 'the agent of the host does, when it reports the '
                      'instance; a build that never starts gives back its '
                      'claim by itself'),
            ('conductor', 'the plug-in does, at once; who ends instances '
                          'must release the claims'),
        ],
        help='Who confirms claims.'),
    cfg.BoolOpt(
        'write_placement_allocations', default=True,
        help='Write the allocations to Placement, as Nova\'s scheduler does '
             'before it answers. The rest of Nova (resize, migration, quota '
             'from Placement, the resource tracker) expects them there.'),
    cfg.IntOpt(
        'placement_attempts', default=3, min=1,
        help='How many hosts to try when Placement refuses what cellgate '
             'chose.'),
    cfg.StrOpt(
        'reasons', default='filters', choices=[
            ('none', 'as Nova: nothing of the cloud'),
            ('filters', 'the filters that rejected hosts'),
            ('counts', 'the filters, and how many hosts each rejected'),
        ],
        help='What the message of NoValidHost tells; users see it in the '
             'fault of their server. The log has everything.'),
    cfg.StrOpt(
        'tls_ca_file',
        help='PEM file of the CAs of the gateways; turns TLS on.'),
    cfg.StrOpt(
        'tls_server_name',
        help='Name in the gateways\' certificates, when it is not their '
             'address.'),
    cfg.StrOpt('tls_cert_file', help='PEM file of this client\'s certificate.'),
    cfg.StrOpt('tls_key_file', help='PEM file of its key.'),
    cfg.StrOpt(
        'token_file',
        help='File with the token of role conductor; read again when it '
             'changes.'),
]


def list_opts():
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]


def register(conf):
    """Register the options; again is fine. Returns the group."""
    conf.register_opts(OPTS, group=GROUP)
    return conf.cellgate


def check(group):
    """Raise ValueError with everything that is wrong with the section."""
    problems = []
    if not group.endpoints:
        problems.append('endpoints: at least one address is needed')
    for e in group.endpoints:
        host, colon, port = e.rpartition(':')
        if not (colon and host and port.isdigit()):
            problems.append('endpoints: %r is not host:port' % e)
        elif group.token_file and not group.tls_ca_file and not _loopback(host):
            problems.append(
                'token_file: without tls_ca_file the token would go readable '
                'to %s' % e)
    if bool(group.tls_cert_file) != bool(group.tls_key_file):
        problems.append('tls_cert_file, tls_key_file: one without the other')
    if group.tls_cert_file and not group.tls_ca_file:
        problems.append('tls_cert_file: needs tls_ca_file')
    for name in ('tls_ca_file', 'tls_cert_file', 'tls_key_file', 'token_file'):
        path = getattr(group, name)
        if path:
            try:
                with open(path, 'rb'):
                    pass
            except OSError as e:
                problems.append('%s: %s' % (name, e))
    if problems:
        raise ValueError('[cellgate] ' + '; '.join(problems))


def _loopback(host):
    return host in ('localhost', '[::1]') or host.startswith('127.')
