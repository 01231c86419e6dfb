// Command openshell-workload is all that the tests' sandbox images hold. What it can do says package
// workload.
package main

import (
	"fmt"
	"os"

	"github.com/portcullis-mesh/portcullis/test/companions/workload"
)

func main() {
	code, err := workload.Run(os.Args[:1], os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "openshell-workload:", err)
		code = 1
	}
	os.Exit(code)
}
