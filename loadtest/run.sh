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
rm -f "$out"/{k6.out,k6.log,report.html,report.json} # of the run before
[ "$scenario" != pack-first ] || flags="--nova-conf $root/loadtest/pack-first.conf"
# shellcheck source=fleet.sh
. "$root/loadtest/fleet.sh"
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
