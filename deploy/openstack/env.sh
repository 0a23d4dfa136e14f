# Settings and functions of the scripts in this folder, which source it. Every setting can be given
# in the environment.
CODE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$CODE/../.." && pwd)
STACK=${STACK:-$ROOT/.cellgate/openstack}   # data, logs and configuration files; nothing is written elsewhere
CELLGATE=${CELLGATE:-$ROOT/bin/cellgate}

HOSTS=${HOSTS:-10}                 # nova-compute processes in cell1: fake-001, fake-002, ...
HOSTS2=${HOSTS2:-2}                # nova-compute processes in cell2; 0: no second cell
SCHEDULER=${SCHEDULER:-cellgate}   # who serves the topic scheduler: cellgate, nova, or both (a canary)
FAKE_DRIVER=${FAKE_DRIVER:-fake.FakeLiveMigrateDriver}  # a class of nova.virt.fake with 1000 vCPUs and 800 GB of memory
SCHEDULERS=${SCHEDULERS:-1}        # [scheduler] workers of nova-scheduler
CONDUCTORS=${CONDUCTORS:-2}        # [conductor] workers
API_PROCS=${API_PROCS:-2}          # uwsgi processes of nova-api
PLACEMENT_PROCS=${PLACEMENT_PROCS:-2}
# who serves Placement's API: cellgate, or placement (placement-api). For a new $STACK: the catalog keeps the first one.
PLACEMENT=${PLACEMENT:-$([ "$SCHEDULER" = nova ] && echo placement || echo cellgate)}
PLACEMENT_URL=${PLACEMENT_URL:-}   # another Placement for Nova; none is started then
[ -z "$PLACEMENT_URL" ] || PLACEMENT=other
PLACEMENT_SERVERS=${PLACEMENT_SERVERS:-$([ "$PLACEMENT" = cellgate ] && echo 2 || echo 1)}  # gateways, or placement-apis, behind a load balancer; 1: none
PLACEMENT_PATHS=${PLACEMENT_PATHS:-1}       # 0: no compute names its cell to Placement's API; the gateway finds it in Nova's databases
RPC_LOG=${RPC_LOG:-0}              # 1: the conductor logs its calls, which rpc_times.py reads
DEBUG=${DEBUG:-False}              # debug logs of Nova and Placement
RESOURCE_INTERVAL=${RESOURCE_INTERVAL:-60}  # update_resources_interval of nova-compute
QUIET=${QUIET:-0}                  # 1: periodic tasks run seldom, for 50 hosts and more
TRACK_INSTANCES=${TRACK_INSTANCES:-True}    # [filter_scheduler] track_instance_changes
QUOTA_FROM_PLACEMENT=${QUOTA_FROM_PLACEMENT:-False}  # [quota] count_usage_from_placement

# Ports, all on the loopback.
MYSQL_PORT=${MYSQL_PORT:-18406}
MEMCACHED_PORT=${MEMCACHED_PORT:-18411}
KEYSTONE_PORT=${KEYSTONE_PORT:-18450}
EPMD_PORT=${EPMD_PORT:-18469}
RABBIT_DIST_PORT=${RABBIT_DIST_PORT:-18471}
RABBIT_PORT=${RABBIT_PORT:-18472}
NOVA_PORT=${NOVA_PORT:-18474}
PLACEMENT_PORT=${PLACEMENT_PORT:-18478}
PLACEMENT_OLD_PORT=${PLACEMENT_OLD_PORT:-18477}   # of placement-api while switch-placement.sh has a load balancer at its own
TAP_PORT=${TAP_PORT:-18482}   # of the taps of switch-placement.sh
TAP_BACK_PORT=${TAP_BACK_PORT:-18483}
GLANCE_PORT=${GLANCE_PORT:-18492}
NEUTRON_PORT=${NEUTRON_PORT:-18496}
GATEWAY_HTTP_PORT=${GATEWAY_HTTP_PORT:-18480}
GATEWAY_GRPC_PORT=${GATEWAY_GRPC_PORT:-18490}
CELLGATE_PLACEMENT_PORT=${CELLGATE_PLACEMENT_PORT:-18479}
PLACEMENT_SERVER_PORTS=${PLACEMENT_SERVER_PORTS:-18520}   # server 1 that serves Placement's API has this + 1, and + 11 and + 21 if it is a gateway
CELL1_PORT=${CELL1_PORT:-18501}
CELL2_PORT=${CELL2_PORT:-18502}
CELL1_METRICS_PORT=${CELL1_METRICS_PORT:-18511}
CELL2_METRICS_PORT=${CELL2_METRICS_PORT:-18512}

# One password for all services, made at the first start.
umask 022
mkdir -p "$STACK"/{etc,log,run,state}
if [ ! -s "$STACK/etc/password" ]; then (umask 077; head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n' > "$STACK/etc/password"); fi
PASS=$(cat "$STACK/etc/password")

# For the openstack client and lib/api.py.
export OS_AUTH_URL=http://127.0.0.1:$KEYSTONE_PORT/v3 OS_USERNAME=admin OS_PASSWORD=$PASS OS_PROJECT_NAME=admin
export OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default OS_IDENTITY_API_VERSION=3 OS_COMPUTE_API_VERSION=2.92
export OS_PLACEMENT_API_VERSION=1.39 no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost

installed() { dpkg -s "$1" 2>/dev/null | grep -q '^Status: install ok installed'; }
say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }

# alive NAME: whether the process of run/NAME.pid runs
alive() { local p; p=$(cat "$STACK/run/$1.pid" 2>/dev/null) && [ -n "$p" ] && kill -0 "$p" 2>/dev/null; }

# start NAME COMMAND...: start a daemon in a session of its own, with its output in log/NAME.log
start() {
  local name=$1; shift
  alive "$name" && return 0
  say "start $name"
  setsid nohup "$@" >>"$STACK/log/$name.log" 2>&1 </dev/null &
  echo $! >"$STACK/run/$name.pid"
}

# stop NAME [SECONDS]: end the process group with SIGTERM, with SIGKILL after SECONDS
stop() {
  local name=$1 wait=${2:-15} p
  p=$(cat "$STACK/run/$name.pid" 2>/dev/null) || return 0
  if kill -0 "$p" 2>/dev/null; then
    say "stop $name"
    kill -TERM -- "-$p" 2>/dev/null || kill -TERM "$p"
    for _ in $(seq $((wait * 5))); do kill -0 "$p" 2>/dev/null || break; sleep 0.2; done
    kill -KILL -- "-$p" 2>/dev/null || true
  fi
  rm -f "$STACK/run/$name.pid"
}

# until_ok SECONDS WHAT COMMAND...: repeat a command until it succeeds
until_ok() {
  local left=$1 what=$2; shift 2
  while ! "$@" >/dev/null 2>&1; do
    left=$((left - 1)); [ "$left" -gt 0 ] || { say "FAILED: $what did not come up"; return 1; }
    sleep 1
  done
}

sql() { mariadb --socket="$STACK/mysql/mysqld.sock" -uroot "$@"; }
rabbitctl() { rabbit_env rabbitmqctl -q "$@"; }
rabbit_env() {  # runs a tool of RabbitMQ against this broker
  env HOME="$STACK/rabbit" ERL_EPMD_PORT=$EPMD_PORT ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODENAME=stack@localhost \
    RABBITMQ_MNESIA_BASE="$STACK/rabbit/mnesia" RABBITMQ_LOG_BASE="$STACK/log" RABBITMQ_DIST_PORT=$RABBIT_DIST_PORT \
    RABBITMQ_CONFIG_FILE="$STACK/etc/rabbitmq" RABBITMQ_ENABLED_PLUGINS_FILE="$STACK/etc/enabled_plugins" \
    RABBITMQ_PID_FILE="$STACK/rabbit/pid" RABBITMQ_CONF_ENV_FILE=/nonexistent \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" \
    "/usr/lib/rabbitmq/bin/$1" "${@:2}"
}
cellgate() { CELLGATE_ADDR=127.0.0.1:$GATEWAY_GRPC_PORT "$CELLGATE" "$@"; }
# placement_port N: where the Nth server of Placement's API listens: alone at the port that Nova knows
placement_port() {
  if [ "$PLACEMENT_SERVERS" != 1 ]; then echo $((PLACEMENT_SERVER_PORTS + $1));
  elif [ "$PLACEMENT" = cellgate ]; then echo "$CELLGATE_PLACEMENT_PORT"; else echo "$PLACEMENT_PORT"; fi
}
# start_placement N: the Nth server of Placement's API, by the files of configure.sh
start_placement() {
  if [ "$PLACEMENT" = cellgate ]; then
    start "cellgate-placement-$1" "$CELLGATE" gateway --config "$STACK/etc/cellgate/placement-$1.yaml"
    until_ok 60 "Placement's API" curl -sf "http://127.0.0.1:$((PLACEMENT_SERVER_PORTS + 10 + $1))/readyz"
  else
    start "placement-$1" uwsgi --ini "$STACK/etc/uwsgi-placement-$1.ini"
    until_ok 60 "Placement's API" curl -sf "http://127.0.0.1:$(placement_port "$1")/"
  fi
}
start_placements() {
  local n
  for n in $(seq "$PLACEMENT_SERVERS"); do start_placement "$n"; done
  [ "$PLACEMENT_SERVERS" = 1 ] || start placement-balancer haproxy -db -f "$STACK/etc/placement-balancer.cfg"
}
start_rabbitmq() {
  alive rabbitmq && return 0
  say "start rabbitmq"
  mkdir -p "$STACK/rabbit/mnesia"
  ( rabbit_env rabbitmq-server >>"$STACK/log/rabbitmq.out" 2>&1 </dev/null & echo $! >"$STACK/run/rabbitmq.pid" )
}
