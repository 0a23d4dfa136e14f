#!/usr/bin/env bash
# Runs the benchmarks COUNT times and prints medians with benchstat, with where
# they were measured. Arguments go to go test: ./bench.sh -bench Propose
set -euo pipefail
cd "$(dirname "$0")"
count=${COUNT:-6}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo none), $(go version | cut -d' ' -f3), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
go test -count=1 -v -run TestYardstick ./internal/bench | sed -n 's/.*go:[0-9]*: /yardstick: /p'
if [ $# -eq 0 ]; then set -- -bench .; fi
go test -run '^$' -benchmem -count "$count" "$@" ./schedule/... ./shard/... ./cell/... ./gateway/... | tee "$out" >&2
bin/tools/benchstat "$out"
