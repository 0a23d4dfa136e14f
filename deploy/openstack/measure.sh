#!/bin/bash
# measure.sh N [boot.py option...]: boots N servers on the running stack (RPC_LOG=1 at up.sh), prints servers a second, the
# CPU seconds of every service, and how long the conductor waits for select_destinations. Then it deletes them, which is
# not measured.
. "$(dirname "$0")/env.sh"
export STACK
n=$1; shift
name=measure-$(date +%s) log=$STACK/log/nova-conductor.log
from=$(wc -l <"$log")
/usr/bin/python3 "$CODE/lib/cpu.py" >"$STACK/run/cpu.json"
"$CODE/boot.sh" "$n" m1.small --prefix "$name" "$@"
/usr/bin/python3 "$CODE/lib/cpu.py" "$STACK/run/cpu.json"
tail -n +$((from + 1)) "$log" | /usr/bin/python3 "$CODE/lib/rpc_times.py"
"$CODE/boot.sh" delete "$name"
