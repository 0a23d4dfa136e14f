#!/bin/bash
# switch.sh [N]: boots N servers (40) while nova-scheduler takes over from cellgate, and then cellgate from nova-scheduler,
# which is installed for that long.
. "$(dirname "$0")/env.sh"
installed nova-scheduler || trap 'apt-get -qq -y purge nova-scheduler >/dev/null' EXIT
n=${1:-40} name=switch-$(date +%s)
/usr/bin/python3 "$CODE/lib/boot.py" "$n" m1.tiny --prefix "$name" --concurrency 1 --timeout 400 >"$STACK/log/switch.log" 2>&1 & boots=$!
sleep 3; say "over to nova-scheduler"; "$CODE/scheduler.sh" nova
sleep 5; say "over to cellgate"; "$CODE/scheduler.sh" cellgate
wait $boots; rc=$?
cat "$STACK/log/switch.log"
if [ $rc = 0 ]; then echo "PASS  all $n servers are ACTIVE"; else echo "FAIL  all $n servers are ACTIVE"; fi
"$CODE/boot.sh" delete "$name"
exit $rc
