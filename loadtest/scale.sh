#!/usr/bin/env bash
# usage: scale.sh CELLGATE [CELLSxHOSTS...]. For each size: starts the cells, their agents and a gateway as processes, waits
# until all hosts are registered, and prints how long that took, the memory in use, and what "cellgate bench" measures:
# PARTIAL is the share of answers that some cell was too late for. The default is 3x1000 10x1000 30x1000. The logs of the
# last one are in $OUT (.cellgate/scale). It ends with 1 when some answer was an error.
set -euo pipefail
cellgate=$(realpath "$1")
shift
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${OUT:-$root/.cellgate/scale}")
mkdir -p "$out"

# number NAME: the first number of that name in the JSON of a bench.
number() { tr -d ' ",' <"$out/bench.json" | awk -F: -v name="$1" '$1 == name {print $2; exit}'; }
# mib NAME...: the memory of processes, in MiB.
mib() {
  local files=()
  for name in "$@"; do files+=("/proc/${pid[$name]}/status"); done
  awk '/^VmRSS/ {kb += $2} END {printf "%d", kb / 1024}' "${files[@]}"
}

echo "$(nproc) CPUs, load average before $(cut -d' ' -f1-3 /proc/loadavg); $("$cellgate" version)"
format='%-9s %8s %9s %10s %11s %7s %12s %7s %7s %7s\n'
# shellcheck disable=SC2059 # the format is above
row() { printf "$format" "$@"; }
row 'CELLS x' REGISTER 'CELLS MIB' 'AGENTS MIB' 'GATEWAY MIB' CALLERS SELECTIONS/S 'P50 MS' 'P99 MS' PARTIAL
[ $# -gt 0 ] || set -- 3x1000 10x1000 30x1000
failed=0
for size in "$@"; do
  set +e # the next size is measured all the same
  (
    set -e
    cells=${size%x*} hosts=${size#*x} began=$SECONDS
    # shellcheck source=fleet.sh
    . "$root/loadtest/fleet.sh"
    took=$((SECONDS - began)) status=0
    for callers in 8 64; do
      "$cellgate" bench --addr "$grpc" --callers "$callers" --duration "${BENCH_SECONDS:-10}s" --release end -o json >"$out/bench.json" 2>"$out/bench.log" ||
        { status=1; tail -n 1 "$out/bench.log" >&2; }
      # shellcheck disable=SC2046 # the names of processes have no blanks
      row "$size" "$took s" "$(mib $(seq -f 'cell%g' "$cells"))" "$(mib $(seq -f 'agents%g' "$cells"))" "$(mib gateway)" \
        "$callers" "$(number selections_per_second | cut -d. -f1)" "$(printf %.1f "$(number p50_ms)")" "$(printf %.1f "$(number p99_ms)")" \
        "$((100 * $(number partial) / $(number requests)))%"
    done
    exit $status
  )
  [ $? = 0 ] || failed=1
  set -e
done
exit $failed
