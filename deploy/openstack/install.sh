#!/bin/bash
# install.sh [package...]: installs the packages of Debian 12 that up.sh needs, and those named (as root). nova-scheduler and
# placement-api are installed when SCHEDULER or PLACEMENT asks for them. No service is started: policy-rc.d forbids it meanwhile.
set -eu
packages="rabbitmq-server memcached mariadb-server mariadb-client keystone glance-api neutron-server
  nova-api nova-conductor nova-compute uwsgi-core uwsgi-plugin-python3 haproxy
  python3-pymysql python3-memcache python3-pymemcache python3-openstackclient python3-osc-placement curl jq"
[ "${SCHEDULER:-cellgate}" = cellgate ] || packages="$packages nova-scheduler placement-api"
[ "${PLACEMENT:-cellgate}" != placement ] || packages="$packages placement-api"
missing=$(for p in $packages "$@"; do dpkg -s "$p" 2>/dev/null | grep -q '^Status: install ok installed' || echo "$p"; done)
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
