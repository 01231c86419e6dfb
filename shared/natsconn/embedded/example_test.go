package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/embedded"
)

// A single-node daemon hosts the server and connects to it by the same settings as every other daemon on the machine.
func Example() {
	if err := hostAndConnect(); err != nil {
		fmt.Println(err)
	}
	// Output: connected, JetStream has 0 streams
}

func hostAndConnect() error {
	dir, err := os.MkdirTemp("", "portcullis-example")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	settings := natsconn.DefaultConfig() // in a daemon, loaded from [portcullis.nats]
	settings.Embedded, settings.EmbeddedStoreDir, settings.EmbeddedListen = true, filepath.Join(dir, "nats"), freeAddress()

	server, err := embedded.New(embedded.FromSettings(settings), zerolog.Nop())
	if err != nil {
		return err
	}
	conn, err := natsconn.New(settings, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	// In a daemon the two are tasks of its group, the server first, so that it stops last.
	ctx, stopServer := context.WithTimeout(context.Background(), patience)
	defer stopServer()
	connCtx, disconnect := context.WithCancel(ctx)
	defer disconnect()
	served, connected := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Run(ctx) }()
	go func() { connected <- conn.Run(connCtx) }()

	useErr := use(ctx, conn)
	disconnect()
	connErr := <-connected
	stopServer()
	return errors.Join(useErr, connErr, <-served)
}

func use(ctx context.Context, conn *natsconn.Conn) error {
	session, err := conn.Await(ctx)
	if err != nil {
		return err
	}
	account, err := session.JetStream.AccountInfo(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("connected, JetStream has %d streams\n", account.Streams)
	return nil
}

func freeAddress() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ""
	}
	defer ln.Close()
	return ln.Addr().String()
}
