# Writes the configuration files below $STACK/etc. up.sh sources it after env.sh.
E=$STACK/etc
db() { echo "mysql+pymysql://stack:$PASS@127.0.0.1:$MYSQL_PORT/$1?charset=utf8"; }
mq() { echo "rabbit://stack:$PASS@127.0.0.1:$RABBIT_PORT/$1"; }   # $1: virtual host

case $PLACEMENT in
cellgate) PLACEMENT_URL=http://127.0.0.1:$CELLGATE_PLACEMENT_PORT ;;
placement) PLACEMENT_URL=http://127.0.0.1:$PLACEMENT_PORT ;;
esac
placement_of() {  # $1: the cell whose computes and conductor ask
  if [ "$PLACEMENT" = cellgate ] && [ "$PLACEMENT_PATHS" = 1 ]; then echo "$PLACEMENT_URL/cells/$1"; else echo "$PLACEMENT_URL"; fi
}

# --- MariaDB, RabbitMQ
cat >"$E/my.cnf" <<X
[mysqld]
datadir=$STACK/mysql
socket=$STACK/mysql/mysqld.sock
pid-file=$STACK/mysql/mysqld.pid
bind-address=127.0.0.1
port=$MYSQL_PORT
user=$(id -un)
max_connections=4000
innodb_buffer_pool_size=512M
innodb_log_file_size=256M
character-set-server=utf8mb3
collation-server=utf8mb3_general_ci
skip-name-resolve
log_error=$STACK/log/mysqld.err
X
cat >"$E/rabbitmq.conf" <<X
listeners.tcp.1 = 127.0.0.1:$RABBIT_PORT
default_user = stack
default_pass = $PASS
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
loopback_users = none
disk_free_limit.absolute = 500MB
log.file.level = warning
X
echo '[].' >"$E/enabled_plugins"

# --- Parts of several files
keystone_user() {  # $1: service user
  cat <<X
auth_type = password
auth_url = http://127.0.0.1:$KEYSTONE_PORT/v3
username = $1
password = $PASS
project_name = service
user_domain_id = default
project_domain_id = default
X
}
token_check() {  # [keystone_authtoken]
  echo "[keystone_authtoken]"; echo "www_authenticate_uri = http://127.0.0.1:$KEYSTONE_PORT/v3"
  echo "memcached_servers = 127.0.0.1:$MEMCACHED_PORT"; echo "service_token_roles_required = false"; keystone_user "$1"
}
uwsgi_ini() {  # $1 name, $2 port, $3 processes, $4 threads, $5 wsgi file; the rest are extra lines
  local f=$E/uwsgi-$1.ini; cat >"$f" <<X
[uwsgi]
http-socket = 127.0.0.1:$2
plugins = python3
wsgi-file = $5
processes = $3
threads = $4
buffer-size = 65535
master = true
enable-threads = true
thunder-lock = true
lazy-apps = true
no-orphans = true
die-on-term = true
exit-on-reload = true
listen = 100
add-header = Connection: close
http-auto-chunked = true
http-chunked-input = true
http-raw-body = true
wsgi-manage-chunked-input = true
log-format = %(ltime) %(method) %(uri) %(status) %(msecs)ms %(size)B "%(uagent)" [%(var.HTTP_OPENSTACK_API_VERSION)]
X
  shift 5; for l in "$@"; do echo "$l" >>"$f"; done
}

# --- Keystone
mkdir -p "$E/keystone" "$E/placement" "$E/nova" "$E/neutron" "$E/glance" "$STACK/state/images"
cat >"$E/keystone/keystone.conf" <<X
[DEFAULT]
log_file = $STACK/log/keystone.app.log
[database]
connection = $(db keystone)
[token]
provider = fernet
[fernet_tokens]
key_repository = $E/keystone/fernet
[credential]
key_repository = $E/keystone/credential
[cache]
enabled = true
backend = dogpile.cache.pymemcache
memcache_servers = 127.0.0.1:$MEMCACHED_PORT
X
uwsgi_ini keystone "$KEYSTONE_PORT" 2 1 /usr/bin/keystone-wsgi-public "env = OS_KEYSTONE_CONFIG_DIR=$E/keystone" "env = OS_KEYSTONE_CONFIG_FILES=$E/keystone/keystone.conf"

# --- Placement
cat >"$E/placement/placement.conf" <<X
[DEFAULT]
debug = $DEBUG
log_file = $STACK/log/placement.app.log
state_path = $STACK/state
[api]
auth_strategy = keystone
[placement_database]
connection = $(db placement)
[oslo_policy]
policy_dirs = $E/placement/policy.d
$(token_check placement)
X
for n in $(seq "$PLACEMENT_SERVERS"); do
  uwsgi_ini placement-$n "$(placement_port $n)" "$PLACEMENT_PROCS" 1 /usr/bin/placement-api "env = OS_PLACEMENT_CONFIG_DIR=$E/placement"
done
# The load balancer of docs/how-to/placement-api.md.
if [ "$PLACEMENT_SERVERS" != 1 ]; then
  cat <<X
defaults
  mode http
  timeout connect 1s
  timeout client 120s
  timeout server 120s
  timeout check 3s
frontend placement
  bind 127.0.0.1:${PLACEMENT_URL##*:}
  default_backend placement
backend placement
  balance roundrobin
  option httpchk GET /
  default-server check inter 1s fall 3 rise 1
  option redispatch 1
  retries 3
  retry-on conn-failure empty-response
X
  for n in $(seq "$PLACEMENT_SERVERS"); do echo "  server placement-$n 127.0.0.1:$(placement_port $n)"; done
fi >"$E/placement-balancer.cfg"

# --- Glance (file store)
cat >"$E/glance/glance-api.conf" <<X
[DEFAULT]
bind_host = 127.0.0.1
bind_port = $GLANCE_PORT
workers = 0
log_file = $STACK/log/glance.app.log
enabled_backends = disk:file
[database]
connection = $(db glance)
[glance_store]
default_backend = disk
[disk]
filesystem_store_datadir = $STACK/state/images
[os_glance_staging_store]
filesystem_store_datadir = $STACK/state/glance-staging
[os_glance_tasks_store]
filesystem_store_datadir = $STACK/state/glance-tasks
[paste_deploy]
flavor = keystone
config_file = /etc/glance/glance-api-paste.ini
[oslo_concurrency]
lock_path = $STACK/state
$(token_check glance)
X
mkdir -p "$STACK"/state/glance-staging "$STACK"/state/glance-tasks

# --- Neutron: ML2 without agents; servers are booted with "networks": "none"
cat >"$E/neutron/neutron.conf" <<X
[DEFAULT]
bind_host = 127.0.0.1
bind_port = $NEUTRON_PORT
core_plugin = ml2
service_plugins =
auth_strategy = keystone
transport_url = $(mq neutron)
state_path = $STACK/state
log_file = $STACK/log/neutron.app.log
api_paste_config = /etc/neutron/api-paste.ini
api_workers = 1
rpc_workers = 0
rpc_state_report_workers = 0
# every nova-compute keeps a connection open; the 101st would wait for one of the default 100 green threads
wsgi_default_pool_size = 2000
client_socket_timeout = 60
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[ml2]
type_drivers = local,flat,vxlan
tenant_network_types = local
mechanism_drivers =
[database]
connection = $(db neutron)
[oslo_concurrency]
lock_path = $STACK/state
$(token_check neutron)
X

# --- Nova
# $1 file, $2 virtual host, $3 cell database ("" for nova-compute, which may not have one), $4 "api" to include the API
# database, $5 Placement
nova_conf() {
  cat >"$1" <<X
[DEFAULT]
debug = $DEBUG
$([ "$RPC_LOG" = 1 ] && echo "default_log_levels = amqp=WARN,amqplib=WARN,sqlalchemy=WARN,stevedore=WARN,keystoneauth=WARN,keystonemiddleware=WARN,oslo_messaging._drivers.amqpdriver=DEBUG")
transport_url = $(mq "$2")
state_path = $STACK/state/nova
my_ip = 127.0.0.1
compute_driver = $FAKE_DRIVER
osapi_compute_listen = 127.0.0.1
update_resources_interval = $([ "$QUIET" = 1 ] && echo 900 || echo "$RESOURCE_INTERVAL")
# guests of the fake driver have no power state of their own
sync_power_state_interval = -1
$([ "$QUIET" = 1 ] && printf '%s\n' "report_interval = 60" "service_down_time = 600" "heal_instance_info_cache_interval = -1" "rescue_timeout = 0")
instance_usage_audit = false
[api]
auth_strategy = keystone
$([ "$4" = api ] && echo "[api_database]" && echo "connection = $(db nova_api)")
$([ -n "$3" ] && echo "[database]" && echo "connection = $(db "$3")")
[oslo_messaging_rabbit]
# so that a broker that is killed loses no message
amqp_durable_queues = true
[conductor]
workers = $CONDUCTORS
[scheduler]
workers = $SCHEDULERS
[filter_scheduler]
track_instance_changes = $TRACK_INSTANCES
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,NUMATopologyFilter,PciPassthroughFilter
[pci]
alias = {"name": "vf", "vendor_id": "15b3", "product_id": "1018", "device_type": "type-VF"}
[oslo_concurrency]
lock_path = $STACK/state/nova/lock
[workarounds]
# the computes of cell2 cannot reach the API database
disable_group_policy_check_upcall = $([ "$2" = / ] && echo false || echo true)
[oslo_policy]
policy_dirs = $E/nova/policy.d
[quota]
count_usage_from_placement = $QUOTA_FROM_PLACEMENT
instances = -1
cores = -1
ram = -1
server_groups = -1
server_group_members = -1
[vnc]
enabled = false
[glance]
endpoint_override = http://127.0.0.1:$GLANCE_PORT
[cinder]
endpoint_template = http://127.0.0.1:1/none/%(project_id)s
[neutron]
endpoint_override = http://127.0.0.1:$NEUTRON_PORT
$(keystone_user neutron)
[placement]
endpoint_override = $5
# a cell that restarts is away for some seconds: 503
status_code_retries = 30
status_code_retry_delay = 1
$(keystone_user placement)
[service_user]
send_service_user_token = true
$(keystone_user nova)
$(token_check nova)
X
}
mkdir -p "$STACK"/state/nova/{lock,instances} "$E/nova/compute.d"
nova_conf "$E/nova/nova.conf" / nova_cell1 api "$PLACEMENT_URL"   # API, scheduler, conductor of cell1, and the gateway
nova_conf "$E/nova/nova-cell2.conf" cell2 nova_cell2 cell "$(placement_of cell2)"  # conductor of cell2
nova_conf "$E/nova/compute-cell1.conf" / "" cell "$(placement_of cell1)"        # computes have no database
nova_conf "$E/nova/compute-cell2.conf" cell2 "" cell "$(placement_of cell2)"
cp /etc/nova/api-paste.ini "$E/nova/"
uwsgi_ini nova-api "$NOVA_PORT" "$API_PROCS" 1 /usr/bin/nova-api-wsgi "env = OS_NOVA_CONFIG_DIR=$E/nova"

# --- cellgate: two cells with embedded shards, and a gateway that reads Nova's tables
mkdir -p "$E/cellgate"
(umask 077; printf %s "$PASS" >"$E/cellgate/database-password")
cellgate_cell() {  # $1: name, $2: uuid of Nova's cell mapping, $3: port, $4: port of metrics
  cat >"$E/cellgate/$1.yaml" <<X
cell:
  name: $1
  uuid: $2
  grpc: 127.0.0.1:$3
  data: $STACK/state/cellgate/$1
  metrics: 127.0.0.1:$4
X
}
gateway_cells() {  # $1, $2: as of cellgate_gateway
  echo "  cells:"
  echo "    - {name: cell1, uuid: $1, replicas: [127.0.0.1:$CELL1_PORT]}"
  [ -z "${2:-}" ] || echo "    - {name: cell2, uuid: $2, replicas: [127.0.0.1:$CELL2_PORT]}"
}
gateway_legacy() {  # $1, $2: as of cellgate_gateway
  echo "  legacy:"
  for cell in cell1 ${2:+cell2}; do
    cat <<X
    - cell: $cell
      database: mysql://stack@127.0.0.1:$MYSQL_PORT/nova_$cell
      password_file: $E/cellgate/database-password
      api: mysql://stack@127.0.0.1:$MYSQL_PORT/nova_api
      api_password_file: $E/cellgate/database-password
      initial_cpu_allocation_ratio: 4
      initial_ram_allocation_ratio: 1
      initial_disk_allocation_ratio: 1
X
    [ "$QUIET" != 1 ] || echo "      service_down_time: 600s"
  done
}
# Gateways of their own serve Placement's API: they stay when the other one is killed, or leaves the topic to nova-scheduler.
cellgate_placement() {  # $1: which of them; $2, $3: as $1, $2 of cellgate_gateway
  local n=$1; shift
  {
    cat <<X
gateway:
  grpc: 127.0.0.1:$((PLACEMENT_SERVER_PORTS + 20 + n))
  http: 127.0.0.1:$((PLACEMENT_SERVER_PORTS + 10 + n))
  placement:
    enabled: true
    listen: 127.0.0.1:$(placement_port $n)
    default_cell: cell1
    accept_repeats: true
    keystone:
      auth_url: http://127.0.0.1:$KEYSTONE_PORT/v3
      username: placement
      password_file: $STACK/etc/password
      project_name: service
X
    gateway_cells "$@"
    # Whose computes ask without a path is in Nova's databases.
    [ "$PLACEMENT_PATHS" = 1 ] || gateway_legacy "$@"
  } >"$E/cellgate/placement-$n.yaml"
}
cellgate_gateway() {  # $1: uuid of cell1, $2: uuid of cell2, or nothing
  {
    cat <<X
gateway:
  grpc: 127.0.0.1:$GATEWAY_GRPC_PORT
  http: 127.0.0.1:$GATEWAY_HTTP_PORT
  nova_conf: [$E/nova/nova.conf]
  nova: {nova_release: zed}
  bus: {enabled: true, write_allocations: $([ "$PLACEMENT" = placement ] && echo true || echo false)}
X
    gateway_cells "$@"
    gateway_legacy "$@"
  } >"$E/cellgate/gateway.yaml"
}
