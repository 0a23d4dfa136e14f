#!/usr/bin/env bash
# tools/build.sh ARG…: go build ARG…, which tells how many packages it has compiled: the first time takes minutes.
set -euo pipefail

all=$(go list -deps ./cmd/cellgate | wc -l)
go build -v "$@" 2>&1 | awk -v all="$all" '
	/^go: downloading / { if (++modules % 20 == 0) print "downloaded " modules " modules"; next }
	/^[a-z0-9.]+(\/[^ ]*)?$/ { if (++n % 50 == 0) print "compiled " n " packages, of " all " at most"; fflush(); next }
	{ print; fflush() }' >&2
