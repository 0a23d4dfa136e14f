#!/usr/bin/env bash
# usage: run.sh CELLGATE K6. Starts cells, their agents and a gateway as processes of their own,
# on free ports with fresh data, puts the scenario SCENARIO of scenarios.js on them, stops them,
# and fails when a threshold did. The report goes to $OUT (.cellgate/load).
set -euo pipefail
cellgate=$(realpath "$1")
k6=$(realpath "$2")
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${OUT:-$root/.cellgate/load}")
cells=${CELLS:-3} hosts=${HOSTS:-1000} scenario=${SCENARIO:-smoke}

mkdir -p "$out"
rm -f "$out"/{cell,agents}[0-9]*.log "$out"/{gateway.log,k6.out,k6.log,report.html,report.json} # of the run before
data=$(mktemp -d)
declare -A pid command
finish() {
  status=$?
  trap - EXIT
  kill -TERM "${pid[@]}" 2>/dev/null || true
  for name in "${!pid[@]}"; do
    wait "${pid[$name]}" || { status=1; echo "$name did not end well; see $out/$name.log" >&2; }
  done
  rm -rf "$data"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

last=$((20000 + RANDOM % 8000))
free_port() { # sets port
  while last=$((last + 1)); (exec 3<>"/dev/tcp/127.0.0.1/$last") 2>/dev/null; do :; done
  port=$last
}
start() { # NAME [ARGUMENT...]: starts a process, with the arguments that it had before when none are given
  local name=$1
  shift
  [ $# = 0 ] || command[$name]="$*"
  # shellcheck disable=SC2086 # none of the arguments has a blank
  "$cellgate" ${command[$name]} >>"$out/$name.log" 2>&1 &
  pid[$name]=$!
}
stop() { # NAME SIGNAL
  kill "-$2" "${pid[$1]}"
  wait "${pid[$1]}" 2>/dev/null || [ "$2" = KILL ] || echo "$1 did not end well; see $out/$1.log" >&2
}

names= addrs=
for i in $(seq "$cells"); do
  free_port
  start "cell$i" cell --name "cell$i" --uuid "$(printf 'c0000000-0000-4000-8000-%012x' "$i")" --data "$data/cell$i" --grpc "127.0.0.1:$port" --log-level warn
  start "agents$i" agent --cell "cell$i" --replica "127.0.0.1:$port" --hosts "$hosts" --seed "$i" --log-level error
  names+=${names:+,}cell$i addrs+=" --cell cell$i=127.0.0.1:$port"
done
free_port; rest=127.0.0.1:$port
free_port; grpc=127.0.0.1:$port
[ "$scenario" != pack-first ] || addrs+=" --nova-conf $root/loadtest/pack-first.conf"
start gateway gateway --http "$rest" --grpc "$grpc" --log-level warn $addrs
ready() {
  "$cellgate" cells --addr "$grpc" -o json 2>/dev/null | tr -d ' "' | awk -F: -v want=$((cells * hosts)) '$1 == "hosts" {n += $2} END {exit n != want}'
}
for i in $(seq 240); do
  ! ready || break
  [ "$i" -lt 240 ] || { echo "the hosts were not registered within two minutes; see $out" >&2; exit 1; }
  sleep 0.5
done
echo "$scenario on $cells cells x $hosts hosts: http://$rest and $grpc"

# Faults come when the phase that they are for says that it begins.
faults() {
  case $1 in
  down)
    stop cell1 KILL
    sleep 10
    start cell1
    ;;
  restarts)
    for name in $(seq -f 'cell%g' "$cells") gateway; do
      stop "$name" TERM
      start "$name"
      sleep 2
    done
    ;;
  esac
}

: >"$out/k6.log"
cd "$root/loadtest"
K6_WEB_DASHBOARD=true K6_WEB_DASHBOARD_PORT=-1 K6_WEB_DASHBOARD_PERIOD=1s K6_WEB_DASHBOARD_EXPORT="$out/report.html" \
  "$k6" run --quiet --no-usage-report --log-format raw --address '' \
  -e REST="http://$rest" -e GRPC="$grpc" -e CELLS="$names" -e OUT="$out" -e SCENARIO="$scenario" -e RATE="${RATE:-60}" \
  ${STEADY:+-e STEADY="$STEADY"} ${TIMES:+-e TIMES="$TIMES"} ${STRICT_P95:+-e STRICT_P95="$STRICT_P95"} \
  -e MACHINE="$(nproc) CPUs, load average before $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)" \
  -e REVISION="$("$cellgate" version)" load.js >"$out/k6.out" 2>"$out/k6.log" &
k6pid=$!
seen=0
while kill -0 "$k6pid" 2>/dev/null; do
  lines=$(wc -l <"$out/k6.log")
  if [ "$lines" -gt "$seen" ]; then
    for phase in $(sed -n "$((seen + 1)),${lines}s/^phase \(.*\) begins\$/\1/p" "$out/k6.log"); do
      echo "phase $phase"
      faults "$phase"
    done
    seen=$lines
  fi
  sleep 0.5
done
status=0
wait "$k6pid" || status=$?
cat "$out/k6.out"
grep -v '^phase ' "$out/k6.log" | head -20 >&2 || true
# 99: a threshold failed. That a ramp was ended by one is its result.
if [ "$status" = 99 ] && [ "$scenario" = knee ] && ! grep -q '^FAILED' "$out/k6.out"; then status=0; fi
exit "$status"
