// Command words checks the words of pages, methods and names. The average sentence of a page has at
// most 22 words, and no sentence has more than 40. No method has a banned name. Outside generated
// code no identifier has said, told, heard or unsaid as a part. make lint runs it.
//
//	go run ./cmd/words          prints each violation that exceptions.txt does not list, and fails
//	go run ./cmd/words -all     prints each page's numbers too
package main
