#!/bin/bash
# test.sh: the scenario and the faults against the running stack; ends with status 1 if a check failed.
. "$(dirname "$0")/env.sh"
failed=0
"$CODE/scenario.sh" || failed=1
[ "$SCHEDULER" = nova ] || "$CODE/faults.sh" || failed=1
exit $failed
