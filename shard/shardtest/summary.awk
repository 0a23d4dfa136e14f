# The table of `make test-store`, from the lines that Summary.Tell writes; lines of one
# backend are added up.
BEGIN { FS = "\t"; row = "%-34s %6s %6s %11s %16s %11s  %s\n" }
{
	if (!($1 in tests)) order[++n] = $1
	tests[$1] += $2; seeds[$1] += $3; ops[$1] += $4; faults[$1] += $5; bad[$1] += $6
	if ($7 != "" && !(($1, $7) in said)) not[$1] = not[$1] (not[$1] == "" ? "" : "; ") $7
	said[$1, $7]
	m = split($8, list, ", ")
	for (i = 1; i <= m; i++) {
		at = match(list[i], / [0-9]+$/)
		if (at == 0) continue
		kinds[substr(list[i], 1, at - 1)] += substr(list[i], at + 1)
	}
}
END {
	printf "\n" row, "BACKEND", "TESTS", "SEEDS", "OPERATIONS", "FAULTS INJECTED", "VIOLATIONS", "NOT RUN"
	for (i = 1; i <= n; i++) { b = order[i]; printf row, b, tests[b], seeds[b], ops[b], faults[b], bad[b], not[b] }
	print "\nfaults by kind:"
	for (name in kinds) printf "%9d  %s\n", kinds[name], name | "sort -k2"
}
