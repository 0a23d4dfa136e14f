#!/bin/bash
# test.sh: the scenario, the faults and the switch against the running stack; ends with status 1 if a check failed.
. "$(dirname "$0")/env.sh"
failed=0
absent() { if installed "$1"; then echo "FAIL  $1 is not installed"; failed=1; else echo "PASS  $1 is not installed"; fi; }
[ "$SCHEDULER" = nova ] || absent nova-scheduler
[ "$PLACEMENT" != cellgate ] || absent placement-api
"$CODE/scenario.sh" || failed=1
if [ "$SCHEDULER" != nova ]; then
  "$CODE/faults.sh" || failed=1
  "$CODE/switch.sh" || failed=1
fi
exit $failed
