// Command listreader runs an allowlist reader in a process of its own, for the benchmark.
//
// It is told by lines on standard input: "await NAMESPACE true|false" waits for that answer and prints the monotonic
// time, in nanoseconds, at which the reader first gave it; "check NAMESPACE" prints how long one Check takes and how
// many allocations it makes.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "listreader:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("listreader", flag.ContinueOnError)
	url := flags.String("url", "", "the NATS server")
	gateway := flags.String("gateway", "", "whose list to read")
	keys := flags.String("keys", "", "the public keys file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	conn, reader, err := start(*url, *gateway, *keys)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- conn.Run(ctx) }()
	go func() { ended <- reader.Run(ctx) }()
	err = serve(reader, in, out)
	cancel()
	return errors.Join(err, <-ended, <-ended)
}

func start(url, gateway, keys string) (*natsconn.Conn, *allowkv.Reader, error) {
	cfg := natsconn.DefaultConfig()
	cfg.URLs, cfg.Name = []string{url}, "listreader"
	registry := prometheus.NewRegistry()
	conn, err := natsconn.New(cfg, zerolog.Nop(), registry)
	if err != nil {
		return nil, nil, err
	}
	kv := allowkv.DefaultConfig()
	kv.PublicKeysFile = keys
	reader, err := allowkv.NewReader(allowkv.ReaderConfig{GatewayID: gateway, Name: "listreader", Config: kv}, conn, zerolog.Nop(), registry)
	return conn, reader, err
}

func serve(reader *allowkv.Reader, in io.Reader, out io.Writer) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 3 && words[0] == "await":
			want, err := strconv.ParseBool(words[2])
			if err != nil {
				return err
			}
			at, err := await(reader, words[1], want)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, at)
		case len(words) == 2 && words[0] == "check":
			r := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					reader.Check(words[1])
				}
			})
			fmt.Fprintf(out, "%.1f %d\n", float64(r.T.Nanoseconds())/float64(r.N), r.AllocsPerOp())
		default:
			return fmt.Errorf("%q is no command", lines.Text())
		}
	}
	return nil
}

// await waits until the reader's answer for the namespace is want.
func await(reader *allowkv.Reader, namespace string, want bool) (int64, error) {
	for {
		changed := reader.Changed()
		if reader.Check(namespace).Allowed() == want {
			var now unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
				return 0, err
			}
			return now.Nano(), nil
		}
		<-changed
	}
}
