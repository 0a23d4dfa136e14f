#!/bin/bash
# down.sh: stops what up.sh started, by the process ids in run/.
# down.sh nova: leaves MariaDB, RabbitMQ and memcached.
# down.sh clean: deletes all data too.
set -u
. "$(dirname "$0")/env.sh"
for n in fleet-extra fleet-extra-cell1 fleet-extra-cell2 fleet-cell2 fleet-cell1; do stop $n 30; done
for n in haproxy tap-there tap-back tap-again cellgate-gateway placement-balancer cellgate-placement-1 cellgate-placement-2 placement-1 placement-2 cellgate-cell2 cellgate-cell1 nova-api nova-scheduler nova-conductor-cell2 nova-conductor neutron glance keystone; do stop $n 20; done
[ "${1:-}" = nova ] && exit 0
stop memcached
if alive rabbitmq; then say "stop rabbitmq"; rabbitctl stop "$STACK/rabbit/pid" >/dev/null 2>&1; rm -f "$STACK/run/rabbitmq.pid"; fi
# The Erlang runtime started epmd, which serves this port alone.
ERL_EPMD_PORT=$EPMD_PORT epmd -kill >/dev/null 2>&1
if alive mariadb; then say "stop mariadb"; mariadb-admin --socket="$STACK/mysql/mysqld.sock" -uroot shutdown; rm -f "$STACK/run/mariadb.pid"; fi
if [ "${1:-}" = clean ]; then rm -rf "$STACK"/{mysql,rabbit,state,run,log,etc}; say "all data deleted"; fi
