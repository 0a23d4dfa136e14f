# Of what go test -json says: packages that failed though none of their tests did (a goroutine that leaked, a
# crash). Running failed tests again does not run these, so that they would pass.
/"Action":"fail"/ {
	match($0, /"Package":"[^"]*"/)
	package = substr($0, RSTART + 11, RLENGTH - 12)
	if ($0 ~ /"Test":"/) tests[package] = 1
	else packages[package] = 1
}
END {
	for (package in packages) if (!(package in tests)) {
		print "failed without a failed test: " package
		bad = 1
	}
	exit bad
}
