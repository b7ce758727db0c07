// Command hitter comes to a point three times and says so.
package main

import (
	"fmt"

	"rubato/internal/failpoint"
)

func main() {
	for n := range 3 {
		failpoint.Hit(failpoint.BeforeSend)
		fmt.Println("went on", n+1)
	}
}
