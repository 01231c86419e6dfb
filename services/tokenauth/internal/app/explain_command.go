package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/explanation"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// listPatience is how long the command waits for a Fresh allowlist; a reader needs a heartbeat, which comes every second.
const listPatience = 8 * time.Second

func commands(load command.Load[*Settings], _ command.Environment) []*cobra.Command {
	var tokenFile, output string
	cmd := &cobra.Command{
		Use:   "explain --token-file FILE",
		Short: "Decide about one token, and show every step",
		Long: `Decide about the token in a file as the daemon would, and show what each step saw.

The settings file, the variables and the flags are the daemon's. The command asks the API server, and in operator mode the
allowlist in NATS, itself: it needs the daemon's credentials for both, and not the mesh. Nothing is recorded. The exit code is
0 only when the token is accepted. Nothing of the token is printed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := formOf(output)
			if err != nil {
				return err
			}
			token, err := readToken(tokenFile)
			if err != nil {
				return err
			}
			own := defaults()
			cfg, err := load(cmd, own)
			if err != nil {
				return err
			}
			return explain(cmd.Context(), cfg, own, token, func(r explanation.Report) error { return write(cmd.OutOrStdout(), r) })
		},
	}
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with the token; one line end at its end is no part of it")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json")
	return []*cobra.Command{cmd}
}

// formOf chooses by the value of --output.
func formOf(output string) (func(io.Writer, explanation.Report) error, error) {
	switch output {
	case "table":
		return explanation.WriteTable, nil
	case "json":
		return explanation.WriteJSON, nil
	default:
		return nil, fmt.Errorf("--output is %q; use table or json", output)
	}
}

// readToken reads a token as it was presented: without the line end that editors and shells add.
func readToken(path string) (string, error) {
	if path == "" {
		return "", errors.New("--token-file is not set; name the file with the token")
	}
	content, err := pemfile.File{Key: "--token-file", Path: path}.Read(pemfile.Max)
	if err != nil {
		return "", err
	}
	if n := len(content); n > 0 && content[n-1] == '\n' {
		content = content[:n-1]
		if n := len(content); n > 0 && content[n-1] == '\r' {
			content = content[:n-1]
		}
	}
	return string(content), nil
}

// explain makes one decision and gives it to show. The error of a refusal says what was refused.
func explain(ctx context.Context, cfg *driverconf.Config, own *Settings, token string, show func(explanation.Report) error) error {
	clients, err := kubeclient.New(own.Kubernetes, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	return withList(ctx, cfg, own, func(ctx context.Context, list inquiry.List) error {
		inquirer, err := newInquirer(cfg, own, clients, list, prometheus.NewRegistry())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, own.Own.CallTimeout.Std())
		defer cancel()
		began := time.Now()
		result, findings := inquirer.Explain(ctx, inquiry.NewRequest(token, cfg.Kubernetes.GatewayID))
		if err := show(explanation.New(result, findings, time.Since(began))); err != nil {
			return err
		}
		if !result.Decision.Granted() {
			return fmt.Errorf("the token is refused: %s", result.Decision.Explain())
		}
		return nil
	})
}

// withList runs work beside a reader of the allowlist in operator mode, and without one in the others. The reader keeps no
// marks: those on disk are the daemon's.
func withList(ctx context.Context, cfg *driverconf.Config, own *Settings, work func(context.Context, inquiry.List) error) error {
	if cfg.Kubernetes.WorkspaceMode != driverconf.ModeOperator {
		return work(ctx, nil)
	}
	var problems []error
	validate(cfg, own, func(key, problem string, _ ...string) { problems = append(problems, fmt.Errorf("%s %s", key, problem)) })
	if err := errors.Join(problems...); err != nil {
		return err
	}
	settings := own.NATS
	settings.Name = connectionName
	registry := prometheus.NewRegistry()
	conn, err := natsconn.New(settings, zerolog.Nop(), registry)
	if err != nil {
		return err
	}
	list := allowkv.ReaderConfig{GatewayID: cfg.Kubernetes.GatewayID, Name: Name + "-explain", Config: own.Allowlist}
	list.Config.StateDir = ""
	reader, err := allowkv.NewReader(list, conn, zerolog.Nop(), registry)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 2)
	go func() { ended <- conn.Run(running) }()
	go func() { ended <- reader.Run(running) }()
	awaitFresh(ctx, reader)
	err = work(ctx, reader)
	cancel()
	return errors.Join(err, <-ended, <-ended)
}

// awaitFresh waits until the list is Fresh, or for as long as the command has patience. Why it is not, the steps will say.
func awaitFresh(ctx context.Context, reader *allowkv.Reader) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	for {
		listing, changed := reader.Snapshot()
		if listing.Condition.State == allowlist.Fresh {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
