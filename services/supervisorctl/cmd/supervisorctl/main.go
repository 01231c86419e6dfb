// Command supervisorctl provisions, watches, repairs and removes what surrounds a sandbox's workload Pod.
package main

import (
	"context"
	"os"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/command"
)

func main() { os.Exit(command.Main(context.Background(), app.Daemon(), command.System())) }
