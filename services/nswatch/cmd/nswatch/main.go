// Command nswatch turns a namespace label or a file into a signed, revisioned allowlist.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/command"
)

// gcPercent is how much garbage may stand beside what is in use. Lists of ten thousand namespaces come and go with each
// change, and half of Go's default keeps the process under 64 MiB.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(command.Main(context.Background(), app.Daemon(), command.System()))
}
