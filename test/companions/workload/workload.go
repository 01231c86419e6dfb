package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// lookLimit is how long a look at the network may take.
const lookLimit = 2 * time.Second

// Run does what args say and returns the exit code. Self is how this program is called for another run.
func Run(self, args []string) (int, error) {
	if len(args) == 0 {
		return 0, errors.New("nothing to do")
	}
	what, args := args[0], args[1:]
	if fixed, ok := map[string]int{"exit": 1, "write": 2, "dial": 1, "lookup": 1, "serve": 1}[what]; ok && len(args) != fixed {
		return 0, fmt.Errorf("%s: takes %d arguments", what, fixed)
	}
	switch what {
	case "echo":
		fmt.Println(strings.Join(args, " "))
	case "cat":
		return 0, cat(args)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "ids":
		fmt.Println(os.Getuid(), os.Getgid())
	case "exit":
		return strconv.Atoi(args[0])
	case "write":
		return 0, os.WriteFile(args[0], []byte(args[1]), 0o600)
	case "dial", "lookup":
		return 0, look(what, args[0])
	case "reach":
		reach(args)
	case "serve":
		return 0, serve(args[0])
	case "sleep", "stubborn", "family":
		return 0, sleep(self, what)
	default:
		return 0, fmt.Errorf("%q: not known", what)
	}
	return 0, nil
}

func cat(files []string) error {
	from := io.ReadCloser(os.Stdin)
	if len(files) > 0 {
		f, err := os.Open(files[0])
		if err != nil {
			return err
		}
		from = f
	}
	defer func() { _ = from.Close() }()
	_, err := io.Copy(os.Stdout, from)
	return err
}

func look(what, where string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	if what == "lookup" {
		found, err := net.DefaultResolver.LookupHost(ctx, where)
		fmt.Println(strings.Join(found, " "))
		return err
	}
	if err := dial(ctx, where); err != nil {
		return err
	}
	fmt.Println("open")
	return nil
}

func dial(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ask asks a name server over UDP.
func ask(ctx context.Context, server string) error {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server)
	}}
	_, err := resolver.LookupIP(ctx, "ip4", "target.test.")
	return err
}

// reach looks at all targets at the same time and prints a line for each, in their order.
func reach(targets []string) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	said := make([]string, len(targets))
	var looking sync.WaitGroup
	for i, target := range targets {
		looking.Go(func() {
			said[i] = target + " open"
			if err := lookAt(ctx, target); err != nil {
				said[i] = target + " " + err.Error()
			}
		})
	}
	looking.Wait()
	fmt.Println(strings.Join(said, "\n"))
}

func lookAt(ctx context.Context, target string) error {
	switch kind, address, _ := strings.Cut(target, ":"); kind {
	case "tcp":
		return dial(ctx, address)
	case "dns":
		return ask(ctx, address)
	}
	return errors.New("neither tcp nor dns")
}

func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	fmt.Println("port", port, "is open")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}()
	}
}

func sleep(self []string, how string) error {
	switch how {
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "family":
		child := exec.Command(self[0], append(slices.Clone(self[1:]), "stubborn")...)
		if err := child.Start(); err != nil {
			return err
		}
		fmt.Println("child", child.Process.Pid, "lives")
	}
	fmt.Println("sleeping")
	for {
		time.Sleep(time.Hour)
	}
}
