#!/bin/bash
# scenario.sh [phase...]: lib/scenario.py against the running stack.
. "$(dirname "$0")/env.sh"
export STACK CODE CELLGATE GATEWAY_GRPC_PORT SCHEDULER PLACEMENT
exec /usr/bin/python3 "$CODE/lib/scenario.py" "$@"
