package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/control"
)

// user is who uses a running gateway.
type user struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	socket         string
	exit           *int
}

func commands(stdin io.Reader, stdout, stderr io.Writer, exit *int) *cobra.Command {
	u := &user{stdin: stdin, stdout: stdout, stderr: stderr, exit: exit}
	root := &cobra.Command{
		Use: "gateway", Short: "the reference gateway", SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(serveCommand(stderr))
	for _, c := range []*cobra.Command{
		u.create(),
		u.simple(control.Start, "start ID", "begin a new run", 1, func(a []string) control.Request { return control.Request{ID: a[0]} }),
		u.simple(control.Stop, "stop ID", "stop a sandbox", 1, func(a []string) control.Request { return control.Request{ID: a[0]} }),
		u.simple(control.Delete, "delete ID", "delete a sandbox", 1, func(a []string) control.Request { return control.Request{ID: a[0]} }),
		u.simple(control.Get, "get ID", "show a sandbox", 1, func(a []string) control.Request { return control.Request{ID: a[0]} }),
		u.simple(control.List, "list", "show all sandboxes", 0, func([]string) control.Request { return control.Request{} }),
		u.simple(control.EnsureWorkspace, "ensure-workspace NAME", "make a workspace usable", 1, func(a []string) control.Request { return control.Request{Workspace: a[0]} }),
		u.simple(control.DeleteWorkspace, "delete-workspace NAME", "delete a workspace", 1, func(a []string) control.Request { return control.Request{Workspace: a[0]} }),
		u.simple(control.Sweep, "sweep", "sweep now", 0, func([]string) control.Request { return control.Request{} }),
		u.simple(control.Drop, "drop ID", "end the session of its supervisor, which comes again", 1, func(a []string) control.Request { return control.Request{ID: a[0]} }),
		u.simple(control.RotateKeys, "rotate-keys", "make a new signing key", 0, func([]string) control.Request { return control.Request{} }),
		u.exec(), u.events(),
	} {
		c.Flags().StringVar(&u.socket, "control", "", "the running gateway's control socket")
		_ = c.MarkFlagRequired("control") // it exists
		root.AddCommand(c)
	}
	return root
}

func (u *user) simple(op control.Operation, use, short string, args int, request func([]string) control.Request) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args), RunE: func(c *cobra.Command, args []string) error {
		reply, err := control.NewClient(u.socket).Do(c.Context(), op, request(args))
		if err != nil {
			return err
		}
		u.show(reply)
		return nil
	}}
}

func (u *user) create() *cobra.Command {
	var image, driverConfig string
	c := &cobra.Command{Use: "create WORKSPACE NAME [-- COMMAND...]", Short: "create a sandbox", Args: cobra.MinimumNArgs(2)}
	c.Flags().StringVar(&image, "image", "", "the workload's image; the driver's default without it")
	c.Flags().StringVar(&driverConfig, "driver-config", "", "JSON, an object per driver name")
	c.RunE = func(c *cobra.Command, args []string) error {
		spec, err := protojson.Marshal(&computev1.DriverSandboxSpec{
			Template: &computev1.DriverSandboxTemplate{Image: image}, Command: args[2:],
		})
		if err != nil {
			return fmt.Errorf("encode the spec: %w", err)
		}
		reply, err := control.NewClient(u.socket).Do(c.Context(), control.Create, control.Request{
			Workspace: args[0], Name: args[1], Spec: spec, DriverConfig: json.RawMessage(driverConfig),
		})
		if err != nil {
			return err
		}
		u.show(reply)
		return nil
	}
	return c
}

func (u *user) exec() *cobra.Command {
	var input bool
	c := &cobra.Command{Use: "exec ID -- COMMAND...", Short: "run a command in a sandbox", Args: cobra.MinimumNArgs(2)}
	c.Flags().BoolVarP(&input, "stdin", "i", false, "pass the input on, to its end")
	c.RunE = func(c *cobra.Command, args []string) error {
		request := control.Request{ID: args[0], Command: args[1:]}
		if input {
			var err error
			if request.Stdin, err = io.ReadAll(u.stdin); err != nil {
				return fmt.Errorf("read the input: %w", err)
			}
		}
		reply, err := control.NewClient(u.socket).Do(c.Context(), control.Exec, request)
		if err != nil {
			return err
		}
		_, _ = u.stdout.Write(reply.Stdout)
		_, _ = u.stderr.Write(reply.Stderr)
		if *u.exit = reply.Exit.Code; reply.Exit.Signal != 0 {
			*u.exit = 128 + reply.Exit.Signal
		}
		return nil
	}
	return c
}

func (u *user) events() *cobra.Command {
	return &cobra.Command{Use: "events", Short: "show what happens, until interrupted", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return control.NewClient(u.socket).Events(c.Context(), func(line []byte) {
			var e gateway.Event
			if json.Unmarshal(line, &e) == nil {
				_, _ = fmt.Fprintln(u.stdout, e, e.SandboxID)
			}
		})
	}}
}

// show prints sandboxes, one a line.
func (u *user) show(r control.Reply) {
	all := r.Sandboxes
	if r.Sandbox != nil {
		all = append(all, *r.Sandbox)
	}
	for _, s := range all {
		_, _ = fmt.Fprintf(u.stdout, "%s  %s/%s  %s  %s  %s\n", s.ID, s.Workspace, s.Name, s.Phase, s.Cause, s.Message)
	}
}
