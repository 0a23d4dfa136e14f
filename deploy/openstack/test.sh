#!/bin/bash
# test.sh: the scenario, the faults and the switch against the running stack; ends with status 1 if a check failed.
. "$(dirname "$0")/env.sh"
failed=0
"$CODE/scenario.sh" || failed=1
if [ "$SCHEDULER" != nova ]; then
  "$CODE/faults.sh" || failed=1
  "$CODE/switch.sh" || failed=1
fi
exit $failed
