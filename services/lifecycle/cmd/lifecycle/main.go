// Command lifecycle serves the OpenShell compute driver contract on a private Unix socket.
package main

import (
	"context"
	"os"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/command"
)

func main() { os.Exit(command.Main(context.Background(), app.Daemon(), command.System())) }
