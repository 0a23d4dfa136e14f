#!/bin/bash
# Starts a real OpenStack control plane with cellgate in the place of nova-scheduler. It may run again:
# processes that run and data that exist are kept. Settings: env.sh.
set -eu
. "$(dirname "$0")/env.sh"
. "$CODE/lib/configure.sh"
t0=$(date +%s)

# --- 1. MariaDB
if [ ! -d "$STACK/mysql/mysql" ]; then
  mkdir -p "$STACK/mysql"
  mariadb-install-db --datadir="$STACK/mysql" --user="$(id -un)" --auth-root-authentication-method=normal --skip-test-db >"$STACK/log/mysql-install.log" 2>&1
fi
start mariadb mariadbd --defaults-file="$E/my.cnf"
until_ok 60 MariaDB sql -e 'select 1'
for d in keystone placement glance neutron nova_api nova_cell0 nova_cell1 nova_cell2; do
  echo "create database if not exists $d character set utf8mb3;"
done | sql
sql -e "create user if not exists stack@'127.0.0.1' identified by '$PASS'; grant all on *.* to stack@'127.0.0.1';
        create user if not exists stack@'localhost' identified by '$PASS'; grant all on *.* to stack@'localhost'; flush privileges;"

# --- 2. RabbitMQ, memcached
start_rabbitmq
until_ok 90 RabbitMQ rabbitctl await_startup
vhosts=$(rabbitctl list_vhosts --no-table-headers)
for v in cell2 neutron; do
  grep -qx "$v" <<<"$vhosts" || { rabbitctl add_vhost "$v"; rabbitctl set_permissions -p "$v" stack '.*' '.*' '.*'; }
done
start memcached memcached -u nobody -l 127.0.0.1 -p "$MEMCACHED_PORT" -m 64 -c 4096

# --- 3. Schemas (once)
once() {  # once NAME COMMAND...: run a command only if it never succeeded before
  [ -e "$STACK/state/done-$1" ] && return 0
  say "$1"; "${@:2}" >>"$STACK/log/setup.log" 2>&1 || { say "FAILED: $1, see log/setup.log"; return 1; }
  touch "$STACK/state/done-$1"
}
NM="nova-manage --config-file $E/nova/nova.conf"
once keystone-schema keystone-manage --config-file "$E/keystone/keystone.conf" db_sync
mkdir -p "$E/keystone/fernet" "$E/keystone/credential"; chmod 700 "$E/keystone/fernet" "$E/keystone/credential"
once keystone-fernet keystone-manage --config-file "$E/keystone/keystone.conf" fernet_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
once keystone-credential keystone-manage --config-file "$E/keystone/keystone.conf" credential_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
once keystone-bootstrap keystone-manage --config-file "$E/keystone/keystone.conf" bootstrap --bootstrap-password "$PASS" \
  --bootstrap-region-id RegionOne --bootstrap-public-url "http://127.0.0.1:$KEYSTONE_PORT/v3" \
  --bootstrap-internal-url "http://127.0.0.1:$KEYSTONE_PORT/v3" --bootstrap-admin-url "http://127.0.0.1:$KEYSTONE_PORT/v3"
[ "$PLACEMENT" != placement ] || once placement-schema env OS_PLACEMENT_CONFIG_DIR="$E/placement" placement-manage --config-file "$E/placement/placement.conf" db sync
once glance-schema glance-manage --config-file "$E/glance/glance-api.conf" db_sync
once neutron-schema neutron-db-manage --config-file "$E/neutron/neutron.conf" upgrade heads
once nova-api-schema $NM api_db sync
once nova-cell0-map $NM cell_v2 map_cell0 --database_connection "$(db nova_cell0)"
once nova-cell-schemas $NM db sync                      # cell0 and cell1 ([database])
once nova-cell1-map $NM cell_v2 create_cell --name cell1 # from [database] and transport_url
once nova-cell2-schema nova-manage --config-file "$E/nova/nova-cell2.conf" db sync --local_cell
once nova-cell2-map $NM cell_v2 create_cell --name cell2 --database_connection "$(db nova_cell2)" --transport-url "$(mq cell2)"

# --- 4. Keystone, users and catalog
start keystone uwsgi --ini "$E/uwsgi-keystone.ini"
until_ok 60 Keystone curl -sf "http://127.0.0.1:$KEYSTONE_PORT/v3"
once keystone-users /usr/bin/python3 "$CODE/lib/seed.py" keystone \
  "compute=http://127.0.0.1:$NOVA_PORT/v2.1" "placement=$PLACEMENT_URL" "image=http://127.0.0.1:$GLANCE_PORT" "network=http://127.0.0.1:$NEUTRON_PORT"

# --- 5. Placement, Glance, Neutron
case $PLACEMENT in
cellgate) "$CODE/cellgate.sh" placement ;;
placement) start_placements ;;
esac
start glance glance-api --config-file "$E/glance/glance-api.conf"
start neutron neutron-server --config-file "$E/neutron/neutron.conf"
until_ok 60 Placement curl -sf "$PLACEMENT_URL/"
until_ok 60 Glance curl -s "http://127.0.0.1:$GLANCE_PORT/"
until_ok 90 Neutron curl -sf "http://127.0.0.1:$NEUTRON_PORT/"

# --- 6. Nova
start nova-conductor nova-conductor --config-file "$E/nova/nova.conf"
[ "$SCHEDULER" = cellgate ] || start nova-scheduler nova-scheduler --config-file "$E/nova/nova.conf"
start nova-api uwsgi --ini "$E/uwsgi-nova-api.ini"
if [ "$HOSTS2" -gt 0 ]; then start nova-conductor-cell2 nova-conductor --config-file "$E/nova/nova-cell2.conf"; fi
until_ok 60 nova-api curl -sf "http://127.0.0.1:$NOVA_PORT/"
once nova-seed /usr/bin/python3 "$CODE/lib/seed.py" nova

# --- 7. The computes: one parent per cell that forks one nova-compute per host
start fleet-cell1 /usr/bin/python3 "$CODE/lib/fleet.py" "$E/nova/compute-cell1.conf" fake- "$HOSTS"
if [ "$HOSTS2" -gt 0 ]; then start fleet-cell2 /usr/bin/python3 "$CODE/lib/fleet.py" "$E/nova/compute-cell2.conf" cell2- "$HOSTS2"; fi

# --- 8. Map the hosts to their cells, wait until every one is up
/usr/bin/python3 "$CODE/lib/seed.py" wait-computes $((HOSTS + HOSTS2)) 900 $NM cell_v2 discover_hosts --by-service
if [ "$HOSTS2" -gt 0 ] && alive nova-scheduler; then
  kill -HUP "$(cat "$STACK/run/nova-scheduler.pid")"   # its list of cells is kept until then
fi

# --- 9. cellgate
[ "$SCHEDULER" = nova ] || "$CODE/cellgate.sh" start
say "up after $(( $(date +%s) - t0 )) s: $HOSTS hosts in cell1, $HOSTS2 in cell2"
cat <<X
try:  . deploy/openstack/env.sh
      openstack server create --flavor m1.small --image empty --nic none --wait one
      cellgate decisions list --limit 1; cellgate hosts; cellgate claims list
logs: $STACK/log
X
