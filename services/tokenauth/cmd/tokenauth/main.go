// Command tokenauth says who a ServiceAccount bearer is and whether its namespace may be trusted now.
package main

import (
	"context"
	"os"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/command"
)

func main() { os.Exit(command.Main(context.Background(), app.Daemon(), command.System())) }
