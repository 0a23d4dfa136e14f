#!/bin/bash
# switch-placement.sh: moves Placement's API from placement-api to the cells, then the topic scheduler from nova-scheduler to a
# gateway, and both back, as docs/how-to/placement.md says, while servers are booted and deleted. For a stack that was started
# with SCHEDULER=nova: it starts and stops the cells. It prints PASS or FAIL a check.
set -u
SCHEDULER=nova PLACEMENT=placement
. "$(dirname "$0")/env.sh"
. "$CODE/lib/configure.sh"
alive placement-1 || { echo "switch-placement.sh: no placement-api runs: start the stack with SCHEDULER=nova" >&2; exit 2; }
! alive cellgate-gateway || { echo "switch-placement.sh: cellgate schedules here: start the stack with SCHEDULER=nova" >&2; exit 2; }
"$CODE/install.sh" haproxy
old=http://127.0.0.1:$PLACEMENT_OLD_PORT new=http://127.0.0.1:$CELLGATE_PLACEMENT_PORT failed=0
check() { if "${@:2}"; then echo "PASS  $1"; else echo "FAIL  $1"; failed=1; fi; }
tap() {  # tap NAME PORT FROM TO
  start "tap-$1" "$CELLGATE" placement tap --from "$3" --to "$4" --listen "127.0.0.1:$2"
}
placement_on() {  # placement-api (again) with that port
  uwsgi_ini placement-1 "$1" "$PLACEMENT_PROCS" 1 /usr/bin/placement-api "env = OS_PLACEMENT_CONFIG_DIR=$E/placement"
  stop placement-1; start placement-1 uwsgi --ini "$E/uwsgi-placement-1.ini"
}
equal() { "$CELLGATE" placement copy --from "$1" --to "$2" --dry-run; }
boots() {  # six servers, and their deletion, again and again
  local i=0
  until [ -e "$STACK/run/switched" ]; do
    i=$((i + 1))
    "$CODE/boot.sh" 6 m1.tiny --prefix "placement-$began-$i" --concurrency 2 --timeout 240 --delete
  done
}
rounds() {  # waits until six servers were booted and deleted that were not begun before
  local n; n=$(grep -c ^deleted "$STACK/log/switch-placement.log")
  until [ "$(grep -c ^deleted "$STACK/log/switch-placement.log")" -gt $((n + 1)) ]; do sleep 1; done
}
balancer() {  # balancer enable|disable: the server that is the gateway itself
  /usr/bin/python3 -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode()); s.recv(99)' \
    "$STACK/run/haproxy.sock" "$1 server placement/cells
"
}
decisions() { curl -s "http://127.0.0.1:$GATEWAY_HTTP_PORT/metrics" | sed -n 's/^cellgate_gateway_bus_requests_total{method="select_destinations",outcome="ok"} //p'; }
served() { sed -n '/The tap.s counts/s/.* writes=\([0-9]*\).*/\1/p' "$STACK/log/tap-$1.log" | tail -1; }

began=$(date +%s)
rm -f "$STACK/run/switched" "$STACK"/log/tap-*.log
say "placement-api moves to a port of its own"
placement_on "$PLACEMENT_OLD_PORT"
until_ok 60 Placement curl -sf "$old/"
say "a load balancer has its port"
cat >"$E/haproxy.cfg" <<X
global
  stats socket $STACK/run/haproxy.sock level admin
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
frontend placement
  bind 127.0.0.1:$PLACEMENT_PORT
  default_backend placement
backend placement
  option httpchk GET /
  default-server check inter 200ms fall 1 rise 1
  server there 127.0.0.1:$TAP_PORT
  server back 127.0.0.1:$TAP_BACK_PORT
  server cells 127.0.0.1:$CELLGATE_PLACEMENT_PORT disabled
X
start haproxy haproxy -db -f "$E/haproxy.cfg"
PLACEMENT=cellgate PLACEMENT_PATHS=0 "$CODE/cellgate.sh" placement
say "step 1: the copy"
check "Placement is copied to the cells" "$CELLGATE" placement copy --from "$old" --to "$new"
say "step 2: the tap"
tap there "$TAP_PORT" "$old" "$new"
until_ok 30 "the tap" curl -sf "http://127.0.0.1:$PLACEMENT_PORT/"
boots >"$STACK/log/switch-placement.log" 2>&1 & boots=$!
rounds
say "step 3: the switch"
stop tap-there 30; tap back "$TAP_BACK_PORT" "$new" "$old"
rounds
say "step 4: placement-api is switched off"
balancer enable; stop tap-back 30; stop placement-1
say "the bus"
# Claims are allocations: the gateway writes none. What serves the API keeps its files.
export PLACEMENT_URL=http://127.0.0.1:$PLACEMENT_PORT PLACEMENT_SERVERS=2 PLACEMENT_PATHS=0
"$CODE/scheduler.sh" cellgate
rounds
say "back: the bus"
"$CODE/scheduler.sh" both
placed=$(decisions)
stop cellgate-gateway 60
say "back: placement-api runs, and follows the cells"
placement_on "$PLACEMENT_OLD_PORT"
until_ok 60 Placement curl -sf "$old/"
tap back "$TAP_BACK_PORT" "$new" "$old"
until_ok 30 "the tap" curl -sf "http://127.0.0.1:$TAP_BACK_PORT/"
sleep 2   # the load balancer has it
balancer disable
rounds
say "back: placement-api answers"
stop tap-back 30; tap again "$TAP_PORT" "$old" "$new"
rounds
touch "$STACK/run/switched"; wait $boots
cat "$STACK/log/switch-placement.log"
check "every server that was booted is ACTIVE, and every one was deleted" [ "$(grep -c 'ACTIVE 6, ERROR 0' "$STACK/log/switch-placement.log")" = "$(grep -c 'deleted 6 of 6' "$STACK/log/switch-placement.log")" ]
check "servers were booted" grep -q 'deleted 6 of 6' "$STACK/log/switch-placement.log"
check "no boot failed" [ "$(grep -c 'POST failed\|ERROR [1-9]' "$STACK/log/switch-placement.log")" = 0 ]
stop tap-again 30
check "the gateway placed servers (${placed:-none} requests)" [ "${placed:-0}" -gt 0 ]
for t in there back again; do check "Nova wrote through tap $t ($(served $t) times)" [ "$(served $t)" -gt 0 ]; done
check "Placement and the cells are equal" equal "$old" "$new"
say "placement-api has its port again"
stop haproxy
placement_on "$PLACEMENT_PORT"
for n in placement-balancer cellgate-placement-1 cellgate-placement-2 cellgate-cell2 cellgate-cell1; do stop $n; done
exit $failed
