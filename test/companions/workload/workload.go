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
	if fixed, ok := map[string]int{"exit": 1, "write": 2, "dial": 1, "lookup": 1}[what]; ok && len(args) != fixed {
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
	case "serve":
		return 0, serve()
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
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", where)
	if err != nil {
		return err
	}
	fmt.Println("open")
	return conn.Close()
}

func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
