#!/usr/bin/env bash
# usage: tools/test.sh NAME ARGUMENTS...: runs go test ARGUMENTS and prints a line as each package
# ends, one of progress every 30 s, and what was skipped and what failed at the end.
# .cellgate/tests-NAME.json has every event of every test.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift
json=.cellgate/tests-$name.json
mkdir -p .cellgate
: >"$json"

count() { grep -c "$1" "$json" || true; }
progress() {
	# The closed output lets a pipe that reads this script end with it.
	while sleep 30 >/dev/null 2>&1; do
		printf '… %s tests, %d:%02d: %s passed, %s failed, %s packages are done\n' "$name" $((SECONDS / 60)) $((SECONDS % 60)) \
			"$(count '"Action":"pass".*"Test":')" "$(count '"Action":"fail".*"Test":')" "$(count '"Action":"\(pass\|fail\|skip\)","Package":"[^"]*","Elapsed"')"
	done
}
progress &
trap "kill $!" EXIT
bin/tools/gotestsum --format pkgname --jsonfile "$json" -- "$@"
