// Answers every GET after some work: server PORT.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) {
		// Garbage, so that its collector runs.
		sum := make([]byte, 64<<10)
		for round := 0; round < 100; round++ {
			one := sha256.Sum256(sum[:1024])
			copy(sum, one[:])
		}
		fmt.Fprintf(answer, "%x", sum[:32])
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
