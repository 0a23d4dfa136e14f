# shellcheck shell=bash
# Cells, the agents of their hosts and a gateway as processes of their own, on free ports with fresh data. Sourced with
# $cellgate, $cells, $hosts (a cell) and $out (a directory, for the logs) set; $flags go to the gateway. Sets $rest, $grpc,
# $names and ${pid[NAME]}, and stops all when the shell ends.
rm -f "$out"/{cell,agents}[0-9]*.log "$out/gateway.log" # of the run before
data=$(mktemp -d)
declare -A pid command
crashed=
finish() {
  status=$?
  [ -z "$crashed" ] || status=1
  trap - EXIT
  kill -TERM "${pid[@]}" 2>/dev/null || true
  for name in "${!pid[@]}"; do
    wait "${pid[$name]}" || { status=1; echo "$name did not end well; see $out/$name.log" >&2; }
  done
  rm -rf "$data"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

last=$((20000 + RANDOM % 8000))
free_port() { # sets port
  while last=$((last + 1)); (exec 3<>"/dev/tcp/127.0.0.1/$last") 2>/dev/null; do :; done
  port=$last
}
start() { # NAME [ARGUMENT...]: starts a process, with the arguments that it had before when none are given
  local name=$1
  shift
  [ $# = 0 ] || command[$name]="$*"
  # shellcheck disable=SC2086 # none of the arguments has a blank
  "$cellgate" ${command[$name]} >>"$out/$name.log" 2>&1 &
  pid[$name]=$!
}
stop() { # NAME SIGNAL
  kill "-$2" "${pid[$1]}"
  wait "${pid[$1]}" 2>/dev/null || [ "$2" = KILL ] || { crashed=1; echo "$1 did not end well; see $out/$1.log" >&2; }
}

names= addrs=
for i in $(seq "$cells"); do
  free_port
  start "cell$i" cell --name "cell$i" --uuid "$(printf 'c0000000-0000-4000-8000-%012x' "$i")" --data "$data/cell$i" --grpc "127.0.0.1:$port" --log-level warn
  start "agents$i" agent --cell "cell$i" --replica "127.0.0.1:$port" --hosts "$hosts" --seed "$i" --log-level error
  names+=${names:+,}cell$i addrs+=" --cell cell$i=127.0.0.1:$port"
done
free_port; rest=127.0.0.1:$port
free_port; grpc=127.0.0.1:$port
# shellcheck disable=SC2086 # neither has a blank
start gateway gateway --http "$rest" --grpc "$grpc" --log-level warn $addrs ${flags:-}
ready() {
  "$cellgate" cells --addr "$grpc" -o json 2>/dev/null | tr -d ' "' | awk -F: -v want=$((cells * hosts)) '$1 == "hosts" {n += $2} END {exit n != want}'
}
# 100,000 hosts take minutes on two cores.
tries=$((240 + cells * hosts / 50))
for i in $(seq "$tries"); do
  ! ready || break
  [ "$i" -lt "$tries" ] || { echo "the hosts were not registered within $((tries / 2)) s; see $out" >&2; exit 1; }
  sleep 0.5
done
