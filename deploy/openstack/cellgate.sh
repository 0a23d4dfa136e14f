#!/bin/bash
# cellgate.sh start|stop: the cells and the gateway of the stack alone. Nova's own services keep running, and so does what
# serves Placement's API.
# cellgate.sh placement: starts what serves Placement's API.
set -eu
. "$(dirname "$0")/env.sh"
case ${1:-} in
start | placement)
  . "$CODE/lib/configure.sh"
  uuid() { sql -N nova_api -e "select uuid from cell_mappings where name = '$1'"; }
  cell1=$(uuid cell1) cell2=
  cellgate_cell cell1 "$cell1" "$CELL1_PORT" "$CELL1_METRICS_PORT"
  if [ "$HOSTS2" -gt 0 ]; then
    cell2=$(uuid cell2)
    cellgate_cell cell2 "$cell2" "$CELL2_PORT" "$CELL2_METRICS_PORT"
  fi
  cellgate_gateway "$cell1" "$cell2"
  for n in $(seq "$PLACEMENT_SERVERS"); do cellgate_placement $n "$cell1" "$cell2"; done
  start cellgate-cell1 "$CELLGATE" cell --config "$E/cellgate/cell1.yaml"
  [ -z "$cell2" ] || start cellgate-cell2 "$CELLGATE" cell --config "$E/cellgate/cell2.yaml"
  [ "$PLACEMENT" != cellgate ] || start_placements
  [ "$1" = start ] || exit 0
  start cellgate-gateway "$CELLGATE" gateway --config "$E/cellgate/gateway.yaml"
  until_ok 60 "the gateway" curl -sf "http://127.0.0.1:$GATEWAY_HTTP_PORT/readyz"
  until_ok 60 "the import of Nova's hosts" "$CODE/cellgate.sh" imported
  ;;
imported)   # whether every host of Nova's tables is in a cell
  want=$((HOSTS + HOSTS2))
  [ "$(cellgate hosts -o json | jq -s '[.. | objects | select(has("service_host") or has("serviceHost"))] | length')" -ge "$want" ]
  ;;
stop)
  stop cellgate-gateway 60
  [ "$PLACEMENT" = cellgate ] || for n in cellgate-cell2 cellgate-cell1; do stop $n 60; done
  ;;
*) echo "usage: cellgate.sh start|stop|placement" >&2; exit 2 ;;
esac
