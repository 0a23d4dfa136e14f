#!/bin/bash
# faults.sh [KILLS]: kills (SIGKILL) the gateway, a gateway that serves Placement's API, a cell or RabbitMQ, 30 times one after
# the other at random times, while servers are booted, moved, evacuated, shelved and deleted; see lib/faults.py. SEED repeats
# the order. With SCHEDULER=nova it kills nova-scheduler and placement-api instead.
. "$(dirname "$0")/env.sh"
export STACK CODE CELLGATE GATEWAY_GRPC_PORT SCHEDULER PLACEMENT PLACEMENT_SERVERS HOSTS HOSTS2
seed=${SEED:-$(date +%s)}
say "SEED=$seed"
exec /usr/bin/python3 "$CODE/lib/faults.py" "$seed" "${1:-30}"
