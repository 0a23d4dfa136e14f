package main

import (
	"fmt"
	"regexp"
	"strings"
)

// shownAlike is how many objects with the same problem the table has a row each for; of more it names as many in one row.
const shownAlike = 3

// particulars are the parts of a text that differ between objects with the same problem.
var particulars = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+`)

// alike reports whether two results are the same problem of two objects.
func alike(a, b result) bool {
	general := func(r result) string { return particulars.ReplaceAllString(r.What, "#") }
	return a.Status != found && a.Status == b.Status && a.Do == b.Do && a.Check != b.Check && general(a) == general(b)
}

// grouped are the results for a table: neighbours with the same problem in one row.
func (r results) grouped() (out results) {
	for i, n := 0, 0; i < len(r); i += n {
		for n = 1; i+n < len(r) && alike(r[i+n-1], r[i+n]); n++ {
		}
		if n <= shownAlike {
			out = append(out, r[i:i+n]...)
		} else {
			out = append(out, groupOf(r[i:i+n]))
		}
	}
	return out
}

// groupOf names the first objects of a group, and counts the others.
func groupOf(all results) result {
	one, same := all[0], true
	names := []string{one.Check}
	for i, r := range all[1:] {
		if same = same && r.What == one.What; i+1 < shownAlike {
			names = append(names, r.Check[len(sharedWords(one.Check, r.Check)):])
		}
	}
	one.Check = fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(all)-shownAlike)
	if !same {
		one.What += " (the first of these; -o json has each)"
	}
	return one
}

// sharedWords is what two texts begin with, up to the last blank.
func sharedWords(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:strings.LastIndex(a[:n], " ")+1]
}
