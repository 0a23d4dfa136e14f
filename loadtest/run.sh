#!/usr/bin/env bash
# Starts a system of its own on free ports with fresh data, puts the load of
# load.js on it, stops it, and fails when a threshold did. Arguments are the
# binaries: run.sh CELLGATE K6. The report goes to $OUT (.cellgate/load).
set -euo pipefail
cellgate=$(realpath "$1")
k6=$(realpath "$2")
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${OUT:-$root/.cellgate/load}")
cells=${CELLS:-3}
hosts=${HOSTS:-1000}

mkdir -p "$out"
data=$(mktemp -d)
server=
stop() {
  status=$?
  trap - EXIT
  if [ -n "$server" ] && kill -INT "$server" 2>/dev/null; then
    wait "$server" || { status=1; echo "the system did not end well; see $out/server.log" >&2; }
  fi
  rm -rf "$data"
  exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$cellgate" dev --cells "$cells" --hosts "$hosts" --data "$data/shards" \
  --http 127.0.0.1:0 --grpc 127.0.0.1:0 --cell-base-port 0 --log-level warn >"$out/server.out" 2>"$out/server.log" &
server=$!
for _ in $(seq 300); do
  grep -q '^Serving' "$out/server.out" && break
  kill -0 "$server" 2>/dev/null || { cat "$out/server.log" >&2; server=; exit 1; }
  sleep 0.1
done
grep -q '^Serving' "$out/server.out" || { echo "the system was not ready within 30 s; see $out/server.log" >&2; exit 1; }
rest=$(awk '$1 == "REST" {print $2}' "$out/server.out")
grpc=$(awk '$1 == "gRPC" {print $2}' "$out/server.out")
names=$(seq -s, -f 'cell%g' "$cells")
echo "load on $cells cells x $hosts hosts: $rest and $grpc"

cd "$root/loadtest"
"$k6" run --quiet --no-usage-report --log-format raw --address '' \
  -e REST="$rest" -e GRPC="$grpc" -e CELLS="$names" -e HOSTS="$hosts" -e OUT="$out" \
  -e SCENARIO="${SCENARIO:-all}" -e RATE="${RATE:-60}" -e STEADY="${STEADY:-30}" ${STRICT_P95:+-e STRICT_P95="$STRICT_P95"} \
  -e MACHINE="$(nproc) CPUs, load average before $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)" \
  -e REVISION="$("$cellgate" version)" load.js
