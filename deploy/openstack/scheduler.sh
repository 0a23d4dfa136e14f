#!/bin/bash
# scheduler.sh nova|cellgate|both: who serves the topic scheduler from now on. The new one starts before the old one stops.
set -eu
. "$(dirname "$0")/env.sh"
case ${1:-} in nova | cellgate | both) ;; *) echo "usage: scheduler.sh nova|cellgate|both" >&2; exit 2 ;; esac
if [ "$1" != cellgate ]; then
  "$CODE/install.sh" nova-scheduler
  alive nova-scheduler || rm -f "$STACK/log/nova-scheduler.log"
  start nova-scheduler nova-scheduler --config-file "$STACK/etc/nova/nova.conf"
  until_ok 60 nova-scheduler grep -q 'Starting scheduler node' "$STACK/log/nova-scheduler.log"
fi
if [ "$1" != nova ]; then "$CODE/cellgate.sh" start; fi
if [ "$1" = nova ]; then "$CODE/cellgate.sh" stop; fi
if [ "$1" = cellgate ]; then stop nova-scheduler; fi
