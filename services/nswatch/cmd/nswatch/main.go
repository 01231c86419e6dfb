// Command nswatch turns a namespace label or a file into a signed, revisioned allowlist.
package main

import (
	"context"
	"os"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/command"
)

func main() { os.Exit(command.Main(context.Background(), app.Daemon(), command.System())) }
