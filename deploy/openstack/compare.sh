#!/bin/bash
# compare.sh [COMPUTES...]: the table of nova-scheduler with Placement beside cellgate, in one run: for each number of computes
# (10 and 100) a stack of either, in turns; 8 servers that do not count, then 40 servers twice. 25 minutes, 14 GiB of memory.
set -eu
. "$(dirname "$0")/env.sh"
[ $# -gt 0 ] || set -- 10 100
for hosts; do
  for scheduler in cellgate nova; do
    export STACK=$ROOT/.cellgate/compare-$hosts-$scheduler HOSTS=$hosts HOSTS2=0 SCHEDULER=$scheduler RPC_LOG=1
    unset PLACEMENT PLACEMENT_URL
    if [ "$hosts" -ge 50 ]; then export QUIET=1; else unset QUIET; fi
    "$CODE/install.sh"
    "$CODE/up.sh" >/dev/null
    for round in 0 1 2; do
      echo "--- $hosts computes, $scheduler, round $round, load average $(cut -d' ' -f1-3 /proc/loadavg)"
      "$CODE/measure.sh" $([ $round = 0 ] && echo 8 || echo 40)
    done
    "$CODE/down.sh" clean >/dev/null
  done
done
