# Of what go test -json says: packages that ended before all their tests did (a crash), or failed though none of
# their tests did (a goroutine that leaked), a line each. Running failed tests again runs neither those nor what
# had not begun.
function field(name,    at) {
	at = "\"" name "\":\""
	return match($0, at "[^\"]*\"") ? substr($0, RSTART + length(at), RLENGTH - length(at) - 1) : ""
}
/"Action":"(run|pass|fail|skip)"/ {
	action = field("Action"); package = field("Package"); test = field("Test")
	if (action == "run") running[package, test] = 1
	else if (test != "") {
		delete running[package, test]
		if (action == "fail") failed[package] = 1
	} else {
		crashed = 0
		for (key in running) {
			split(key, of, SUBSEP)
			if (of[1] == package) { crashed = 1; delete running[key] }
		}
		if (action == "fail" && (crashed || !(package in failed))) print package
		delete failed[package]
	}
}
