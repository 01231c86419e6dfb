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

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/explanation"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// listPatience is how long the command waits for a Fresh allowlist; a reader needs a heartbeat, which comes every second.
const listPatience = 8 * time.Second

// Exit codes of explain beside 0, which is a yes, and daemon.ExitFailed, which says that nothing was decided.
const (
	exitDenied  = 2
	exitUnknown = 3
)

func commands(load command.Load[*Settings], _ command.Environment) []*cobra.Command {
	return []*cobra.Command{explainCommand(load), auditCommand(load)}
}

func explainCommand(load command.Load[*Settings]) *cobra.Command {
	var tokenFile, output string
	cmd := &cobra.Command{
		Use:   "explain --token-file FILE",
		Short: "Decide about one token, and show every step",
		Long: `Decide about the token in a file as the daemon would, and show what each step saw. The file - is the standard input, for a
Pod of the daemon, into which nobody can put a file.

The settings file, the variables and the flags are the daemon's. The command asks the API server, and in operator mode the
allowlist in NATS, itself: it needs the daemon's credentials for both. [portcullis.mesh] is not looked at. Nothing is recorded,
and nothing of the token is printed.

Exit codes:
  0  the token is accepted
  2  it is refused
  3  it could not be found out, and the daemon would refuse it
  1  nothing was decided: the settings, a file or the command line is wrong, or the result could not be written`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := formOf(output)
			if err != nil {
				return err
			}
			token, err := readToken(tokenFile, cmd.InOrStdin())
			if err != nil {
				return err
			}
			own := forPeople()
			cfg, err := load(cmd, own)
			if err != nil {
				return err
			}
			return explain(cmd.Context(), cfg, own, token, func(r explanation.Report) error { return write(cmd.OutOrStdout(), r) })
		},
	}
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with the token, - for the standard input; one line end at its end is no part of it")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json")
	return cmd
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

// standardInput is the name of the file that is none.
const standardInput = "-"

// readToken reads a token as it was presented: without the line end that editors and shells add.
func readToken(path string, input io.Reader) (string, error) {
	content, err := readTokenFile(path, input)
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

func readTokenFile(path string, input io.Reader) ([]byte, error) {
	switch path {
	case "":
		return nil, errors.New("--token-file is not set; name the file with the token")
	case standardInput:
		content, err := io.ReadAll(io.LimitReader(input, pemfile.Max+1))
		if err != nil {
			return nil, fmt.Errorf("read the token from the standard input: %w", err)
		}
		if len(content) > pemfile.Max {
			return nil, fmt.Errorf("the standard input is larger than %d bytes, which no token is", pemfile.Max)
		}
		return content, nil
	default:
		return pemfile.File{Key: "--token-file", Path: path}.Read(pemfile.Max)
	}
}

// explain makes one decision and gives it to show. The error of a refusal says what was refused.
func explain(ctx context.Context, cfg *driverconf.Config, own *Settings, token string, show func(explanation.Report) error) error {
	clients, err := kubeclient.New(own.Kubernetes, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	return withList(ctx, cfg, own, func(ctx context.Context, list inquiry.List, ready func(context.Context) error) error {
		inquirer, err := newInquirer(cfg, own, clients, list, prometheus.NewRegistry())
		if err != nil {
			return err
		}
		trouble := ready(ctx)
		ctx, cancel := context.WithTimeout(ctx, own.Own.CallTimeout.Std())
		defer cancel()
		began := time.Now()
		result, findings, err := decide(ctx, inquirer, inquiry.NewRequest(token, cfg.Kubernetes.GatewayID))
		if err != nil {
			return err
		}
		report := explanation.New(result, findings, time.Since(began))
		if trouble != nil {
			report.AllowlistTrouble = trouble.Error()
		}
		if err := show(report); err != nil {
			return err
		}
		return refusal(result.Decision)
	})
}

// explainer decides with evidence; *inquiry.Inquirer is one.
type explainer interface {
	Explain(ctx context.Context, request inquiry.Request) (authenticate.Result, []authenticate.Finding)
}

// decide turns a defect into an error: a panic would end the process with the exit code of a refusal.
func decide(ctx context.Context, by explainer, request inquiry.Request) (result authenticate.Result, findings []authenticate.Finding, err error) {
	defer func() {
		if r := recover(); r != nil {
			kind := fmt.Sprintf("%T", r) // the value may hold anything
			if elsewhere, ok := r.(*inquiry.Panic); ok {
				kind = elsewhere.Type
			}
			err = fmt.Errorf("a defect: the decision panicked with a value of type %s", kind)
		}
	}()
	result, findings = by.Explain(ctx, request)
	return result, findings, nil
}

// refusal is the error of a decision that is no grant, with its exit code.
func refusal(d verdict.Decision) error {
	switch d.Outcome() {
	case verdict.Granted:
		return nil
	case verdict.Denied:
		return daemon.WithExitCode(fmt.Errorf("the token is refused: %s", d.Explain()), exitDenied)
	default:
		return daemon.WithExitCode(fmt.Errorf("whether the token is good could not be found out: %s", d.Explain()), exitUnknown)
	}
}

// withList runs work beside a reader of the allowlist in operator mode, with its readiness, and without one in the others.
// The reader keeps no marks: those on disk are the daemon's.
func withList(ctx context.Context, cfg *driverconf.Config, own *Settings, work func(context.Context, inquiry.List, func(context.Context) error) error) error {
	if cfg.Kubernetes.WorkspaceMode != driverconf.ModeOperator {
		return work(ctx, nil, func(context.Context) error { return nil })
	}
	var problems []error
	validateOperator(cfg, own, func(key, problem string, _ ...string) { problems = append(problems, fmt.Errorf("%s %s", key, problem)) })
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return withNATS(ctx, own.NATS, func(ctx context.Context, conn *natsconn.Conn) error {
		list := allowkv.ReaderConfig{GatewayID: cfg.Kubernetes.GatewayID, Name: Name + "-explain", Config: own.Allowlist}
		list.Config.StateDir = ""
		reader, err := allowkv.NewReader(list, conn, zerolog.Nop(), prometheus.NewRegistry())
		if err != nil {
			return err
		}
		running, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan error, 1)
		go func() { ended <- reader.Run(running) }()
		awaitFresh(ctx, reader)
		err = work(ctx, reader, command.ListReady(reader, conn))
		cancel()
		return errors.Join(err, <-ended)
	})
}

// awaitFresh waits until the list is Fresh, or for as long as the command has patience. Why it is not, readiness says.
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
