#!/bin/bash
# Installs the packages of Debian 12 (as root). No service is started: policy-rc.d forbids it meanwhile.
set -eu
packages="rabbitmq-server memcached mariadb-server mariadb-client keystone glance-api neutron-server placement-api
  nova-api nova-conductor nova-scheduler nova-compute uwsgi-core uwsgi-plugin-python3
  python3-pymysql python3-memcache python3-pymemcache python3-openstackclient python3-osc-placement curl jq"
missing=$(for p in $packages; do dpkg -s "$p" 2>/dev/null | grep -q '^Status: install ok installed' || echo "$p"; done)
[ -n "$missing" ] || exit 0
echo "the control plane needs the packages" $missing
[ "$(id -u)" = 0 ] || { echo "run deploy/openstack/install.sh as root, once" >&2; exit 1; }
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=1800 install -y --no-install-recommends $missing
