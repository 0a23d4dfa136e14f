#!/bin/sh
# Prints the checksums of the console's sources and of its built files. `make console` keeps them,
# so that a stale build is noticed without npm.
set -eu
cd "$(dirname "$0")/.."
find console gateway/console/dist -type f -not -path 'console/node_modules/*' -not -path 'console/src/api.d.ts' | LC_ALL=C sort | xargs sha256sum
