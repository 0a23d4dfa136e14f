#!/bin/bash
# faults.sh [N]: kills (SIGKILL) the gateway and a cell while N servers (50) are booted, then RabbitMQ while N others are,
# starts them again, and compares claims with Nova's servers, then and after the servers are deleted.
. "$(dirname "$0")/env.sh"
export STACK CODE CELLGATE GATEWAY_GRPC_PORT
n=${1:-50} name=faults-$(date +%s) failed=0 round=0
check() { if "${@:2}"; then echo "PASS  $1"; else echo "FAIL  $1"; failed=1; fi; }
booted() { /usr/bin/python3 "$CODE/lib/boot.py" "$n" m1.tiny --prefix "$name-$round" --concurrency 4 --timeout 240; }
killed() { say "kill -9 $1"; kill -KILL "$(cat "$STACK/run/$1.pid")"; }

round=$((round + 1)); booted >"$STACK/log/faults.log" 2>&1 & boots=$!
sleep 4; killed cellgate-gateway
sleep 2; "$CODE/cellgate.sh" start
sleep 3; killed cellgate-cell1
sleep 2; "$CODE/cellgate.sh" start
wait $boots; all=$?
cat "$STACK/log/faults.log"
check "the gateway and a cell killed: all $n servers are ACTIVE" [ $all = 0 ]
check "every server has its claim, and no claim is of another" /usr/bin/python3 "$CODE/lib/claims.py" 330   # a claim of a call that was cut off ends with its lease

# What is lost of calls under way when a broker dies is Nova's: its reply queues are not durable.
round=$((round + 1)); booted >"$STACK/log/faults.log" 2>&1 & boots=$!
sleep 6; say "kill -9 rabbitmq"; kill -KILL "$(cat "$STACK/rabbit/pid")"
until_ok 60 "the end of RabbitMQ" eval '! alive rabbitmq'; start_rabbitmq; until_ok 90 RabbitMQ rabbitctl await_startup
wait $boots
cat "$STACK/log/faults.log"
check "RabbitMQ killed: no server failed in the scheduler" [ "$(grep -c 'No valid host\|select_destinations' "$STACK/log/faults.log")" = 0 ]
check "every server has its claim, and no claim is of another" /usr/bin/python3 "$CODE/lib/claims.py" 400
"$CODE/boot.sh" delete "$name"
check "no claim is left over" /usr/bin/python3 "$CODE/lib/claims.py" 120
exit $failed
