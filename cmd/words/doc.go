// Command words checks how pages, methods and names are worded: the average sentence of a page has
// at most 22 words, no sentence has more than 40, no method has a banned name, and no identifier
// of code that is neither a test nor generated has said, told, heard or unsaid as a part. make lint
// runs it.
//
//	go run ./cmd/words          prints each violation that exceptions.txt does not list, and fails
//	go run ./cmd/words -all     prints each page's numbers too
package main
