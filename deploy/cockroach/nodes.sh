#!/bin/sh
# nodes.sh runs three CockroachDB nodes on this machine's loopback, for drills. README.md here says
# what cellgate does in each. Needs a cockroach binary in PATH, or COCKROACH=/path/to/it.
#
#   nodes.sh start           starts nodes 1 to 3 in $DRILL_DIR (cockroach-drill) and makes the cluster
#   nodes.sh kill N          kills node N without a warning
#   nodes.sh stop N          lets node N finish, then stops it
#   nodes.sh run N           runs node N again
#   nodes.sh rolling         stops and runs each node in turn, 30 s apart
#   nodes.sh status          lists the nodes
#   nodes.sh end             kills what is left; the data stays
set -eu
COCKROACH=${COCKROACH:-cockroach}
DIR=${DRILL_DIR:-cockroach-drill}
PORT=${DRILL_PORT:-26261} # SQL and RPC of node 1; the consoles are 100 above

join=127.0.0.1:$PORT,127.0.0.1:$((PORT + 1)),127.0.0.1:$((PORT + 2))
node() { case ${1:-} in 1 | 2 | 3) ;; *) echo "nodes.sh: the node is 1, 2 or 3, not \"${1:-}\"" >&2 && exit 2 ;; esac; }
pid() { cat "$DIR/$1.pid"; }
run() {
	! kill -0 "$(pid "$1" 2>/dev/null)" 2>/dev/null || { echo "nodes.sh: node $1 runs already" >&2 && exit 1; }
	at=$((PORT + $1 - 1))
	"$COCKROACH" start --insecure --join="$join" --listen-addr=127.0.0.1:$at --http-addr=127.0.0.1:$((at + 100)) \
		--locality="zone=z$1" --store="path=$DIR/$1" --cache=256MiB --max-sql-memory=256MiB >"$DIR/$1.log" 2>&1 &
	echo $! >"$DIR/$1.pid"
}
# ready waits until a node answers, for at most a minute.
ready() {
	for _ in $(seq 60); do
		"$COCKROACH" sql --insecure --host=127.0.0.1:$((PORT + $1 - 1)) -e 'SELECT 1' >/dev/null 2>&1 && return
		sleep 1
	done
	echo "nodes.sh: node $1 does not answer; see $DIR/$1.log" >&2
	exit 1
}
stop() {
	kill -TERM "$(pid "$1")"
	while kill -0 "$(pid "$1")" 2>/dev/null; do sleep 1; done
}

case ${1:-} in
start)
	mkdir -p "$DIR"
	for n in 1 2 3; do run $n; done
	for _ in $(seq 60); do
		"$COCKROACH" init --insecure --host=127.0.0.1:"$PORT" >"$DIR/init.log" 2>&1 && break
		grep -q 'already been initialized' "$DIR/init.log" && break
		sleep 1
	done
	for n in 1 2 3; do ready $n; done
	echo "cockroach://root@$join/cell1?sslmode=disable"
	;;
kill) node "${2:-}" && kill -KILL "$(pid "$2")" ;;
stop) node "${2:-}" && stop "$2" ;;
run) node "${2:-}" && run "$2" && ready "$2" ;;
rolling) for n in 1 2 3; do stop $n && run $n && ready $n && sleep 30; done ;;
status) "$COCKROACH" node status --insecure --host=127.0.0.1:"$PORT" ;;
end) for n in 1 2 3; do kill -KILL "$(pid $n)" 2>/dev/null || echo "node $n was not running"; done ;;
*) sed -n '2,13s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
