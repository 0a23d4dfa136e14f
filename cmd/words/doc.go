// Command words checks how pages and methods are worded: the average sentence of a page has at
// most 22 words, no sentence has more than 40, and no method has a banned name. make lint runs it.
//
//	go run ./cmd/words          prints each violation that exceptions.txt does not list, and fails
//	go run ./cmd/words -all     prints each page's numbers too
package main
