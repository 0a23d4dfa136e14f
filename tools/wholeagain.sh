#!/usr/bin/env bash
# tools/wholeagain.sh JSON REPORT COMMAND...
# What gotestsum with --rerun-fails does not: of the packages in its JSON file that ended before their tests did,
# or failed without a failed test, COMMAND tests each once more, whole, and REPORT lists them. Without a REPORT
# (an empty word) they are failures.
set -euo pipefail
json=$1 report=$2
shift 2
packages=$(awk -f "$(dirname "$0")/packagefailures.awk" "$json" | sort -u)
[ -n "$packages" ] || exit 0
echo "ended before its tests did, or failed without a failed test:" $packages
[ -n "$report" ] || exit 1
for p in $packages; do
	env "$@" "$p"
	echo "$p: whole, 2 runs, 1 failure" >>"$report"
done
