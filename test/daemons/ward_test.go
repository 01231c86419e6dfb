package daemons_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// files are what a Pod's volumes hold, by name.
type files map[string][]byte

// unreadable in the place of a file's content is a directory of its name: no rights keep a test that is root from reading.
var unreadable = []byte("\x00unreadable")

// ward is one daemon in a Pod of its own, with one thing wrong.
type ward struct {
	*program.Process
	t       *testing.T
	c       *cluster.Cluster
	daemon  string
	dir     string // of its files; DIR in settings
	files   files
	setting string
	first   string // settings that it starts with, where they are others than those that are right
	home    string // namespace of its ServiceAccount and Pod
	gateway string
	mute    bool // has no account, and so tells nothing by Events
}

// newWard has a good daemon's files and settings, and starts nothing. A gateway's name is not empty.
func newWard(t *testing.T, c *cluster.Cluster, daemon, home, gateway, settings string, right files) *ward {
	t.Helper()
	w := &ward{t: t, c: c, daemon: daemon, dir: shortDir(t), files: maps.Clone(right), setting: settings, home: home, gateway: gateway}
	maps.Copy(w.files, w.account(home))
	return w
}

// newMuteWard is one that has no way to the API server.
func newMuteWard(t *testing.T, daemon, settings string, right files) *ward {
	t.Helper()
	return &ward{t: t, daemon: daemon, dir: shortDir(t), files: maps.Clone(right), setting: settings, home: "nowhere", gateway: "none", mute: true}
}

// account is how the daemon reaches the API server: as its ServiceAccount in a namespace, with a token in a file.
func (w *ward) account(namespace string) files {
	w.t.Helper()
	rc := w.c.ServiceAccountConfig(w.t, namespace, w.daemon)
	return files{"token": []byte(rc.BearerToken), "api.crt": rc.CAData, "kubeconfig": w.kubeconfig(rc.Host)}
}

// kubeconfig is one with files beside it, which a daemon follows; itself it reads once.
func (w *ward) kubeconfig(host string) []byte {
	w.t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["test"] = &clientcmdapi.Cluster{Server: host, CertificateAuthority: filepath.Join(w.dir, "api.crt")}
	cfg.AuthInfos["test"] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(w.dir, "token")}
	cfg.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	cfg.CurrentContext = "test"
	text, err := clientcmd.Write(*cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// write makes the volumes hold these files and no other.
func (w *ward) write(all files) {
	w.t.Helper()
	old, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, entry := range old {
		path := filepath.Join(w.dir, entry.Name())
		if content, is := all[entry.Name()]; is && entry.Type().IsRegular() {
			if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
				continue
			}
		}
		if entry.Name() == "driver" {
			continue // the socket's
		}
		if err := os.RemoveAll(path); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, content := range all {
		path := filepath.Join(w.dir, name)
		var made error
		if bytes.Equal(content, unreadable) {
			made = os.MkdirAll(path, 0o700)
		} else {
			made = os.WriteFile(path, content, 0o600)
		}
		if made != nil {
			w.t.Fatal(made)
		}
	}
}

// start runs the daemon with these files, in a Pod by that name, as it is installed: it waits for settings that are right.
func (w *ward) start(all files) {
	w.t.Helper()
	w.write(all)
	text := w.setting
	if w.first != "" {
		text = w.first
	}
	w.Process = program.Start(w.t, w.daemon+" --waiting-address 127.0.0.1:0", strings.ReplaceAll(text, "DIR", w.dir),
		"POD_NAME="+w.daemon+"-0", "POD_NAMESPACE="+w.home, "POD_UID="+w.uid())
}

// correct puts the files and the settings right.
func (w *ward) correct() {
	w.t.Helper()
	w.write(w.files)
	if w.first == "" {
		return
	}
	if err := os.WriteFile(w.SettingsFile(), []byte(strings.ReplaceAll(w.setting, "DIR", w.dir)), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// uid is one that no other daemon's Pod has.
func (w *ward) uid() string { return "uid-" + strings.ToLower(filepath.Base(w.dir)) }

// socket is where a gateway would find the daemon; an error while there is nothing.
func (w *ward) socket() (path string, err error) {
	path = filepath.Join(w.dir, "driver", "driver.sock")
	_, err = os.Stat(path)
	return path, err
}

// events are those about the Pod.
func (w *ward) events(ctx context.Context) ([]corev1.Event, error) {
	if w.mute {
		return nil, nil
	}
	list, err := w.c.Client().CoreV1().Events(w.home).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + w.uid()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// demandAlive: the process has not ended.
func (w *ward) demandAlive() {
	w.t.Helper()
	select {
	case <-w.Ended():
		w.t.Fatalf("%s ended by itself with exit code %d", w.daemon, w.ExitCode())
	default:
	}
}

// hear is what a daemon that stays ready logs of what it was refused, in the newest line with the message.
func (w *ward) hear(ctx context.Context, message string) (string, error) {
	w.demandAlive()
	if err := ready(ctx, w); err != nil {
		return "", err
	}
	entries := w.Entries(message)
	if len(entries) == 0 {
		return "", fmt.Errorf("the log does not say %q", message)
	}
	newest := entries[len(entries)-1]
	text := newest["explanation"]
	if text == nil {
		text = newest["error"]
	}
	return fmt.Sprintf("  ready, log: %s: %s\n", message, w.plain(fmt.Sprint(text))), nil
}

// look is what the daemon says is wrong, one line for each check, when /readyz, the log and the Events have said the same. A daemon that
// cannot write Events says why not.
func (w *ward) look(ctx context.Context) (string, error) {
	w.demandAlive()
	_, body, err := w.Readiness(ctx)
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(body, "readyz failed\n") {
		return "", fmt.Errorf("readyz says %s", body)
	}
	told, err := w.events(ctx)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for line := range strings.Lines(body) {
		line, wrong := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "[-] ")
		if !wrong {
			continue
		}
		check, _, _ := strings.Cut(line, ": ")
		if err := w.demandLogged(check, line); err != nil {
			return "", err
		}
		reason := strings.ToUpper(check[:1]) + check[1:] + "NotReady"
		how, err := w.demandTold(told, reason, line)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "  %s %s: %s\n", how, reason, w.plain(line))
	}
	return text.String(), nil
}

// demandLogged: the log has the line of a check in /readyz.
func (w *ward) demandLogged(check, line string) error {
	for _, entry := range append(w.Entries("check fails"), w.Entries(program.Waiting)...) {
		if entry["check"] != nil && entry["check"] != check {
			continue
		}
		if text, _ := entry["error"].(string); strings.HasPrefix(w.plain(check+": "+strings.ReplaceAll(text, "\n", "; ")), strings.TrimSuffix(w.plain(line), "...")) {
			return nil
		}
	}
	return fmt.Errorf("the log does not have %s", line)
}

// demandTold: an Event has it too, or the log says why it cannot.
func (w *ward) demandTold(told []corev1.Event, reason, line string) (how string, err error) {
	if w.mute {
		return "log", nil
	}
	for _, entry := range w.Entries("why this Pod is not ready could not be told by an Event") {
		if entry["reason"] == reason {
			how = "log: " + w.plain(fmt.Sprint(entry["error"])) + "\n  log"
		}
	}
	for _, e := range told {
		if e.Reason == reason && w.plain(e.Message) == w.plain(line) {
			how = "Event"
			if e.Type != corev1.EventTypeWarning || e.InvolvedObject.Name != w.daemon+"-0" || e.Source.Component != w.daemon {
				return "", fmt.Errorf("an Event of another kind: %+v", e)
			}
		}
	}
	if how == "" {
		return "", fmt.Errorf("no Event says %s: %s; there are %d", reason, line, len(told))
	}
	return how, nil
}

// changing are parts of texts that are never twice the same, with what stands for them.
var changing = []struct {
	pattern *regexp.Regexp
	stands  string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	// Which of the two depends on whether the first attempt began before the reader.
	{regexp.MustCompile(`the first attempt is under way|the connection has not been started`), "NOT YET"},
	{regexp.MustCompile(`allowlist-[A-Z0-9]{26}`), "CONSUMER"},
	{regexp.MustCompile(`\bt-[a-z0-9]{5}\b`), "NAMESPACE"},
	{regexp.MustCompile(`\bepoch \d+`), "epoch NUMBER"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\S+/\.kube/config\b`), "HOME/.kube/config"},
	// Whether the server's own words are there depends on when they came.
	{regexp.MustCompile(`: nats: permissions violation: .*$`), ""},
	{regexp.MustCompile(`_INBOX\.\w+`), "INBOX"},
	{regexp.MustCompile(`\S*\.\.\.$`), "..."}, // where it is cut depends on what was before
	{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s|m|h)(\d+(\.\d+)?s)?\b`), "SOME"},
	{regexp.MustCompile(`\bk[0-9a-f]{16}\b|\b[0-9a-f]{16}\b`), "KEY"},
}

// plain is a text without what changes from run to run.
func (w *ward) plain(text string) string {
	text = strings.NewReplacer(w.dir, "DIR", w.SettingsFile(), "SETTINGS", w.gateway, "GATEWAY", w.home, "HOME").Replace(text)
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.stands)
	}
	return text
}

// over waits for the Event which says that what was told is over; a daemon that could tell nothing has nothing to end.
func (w *ward) over(until context.Context) {
	w.t.Helper()
	eventually(until, w.t, w.daemon+" tells that it is ready again", func(ctx context.Context) error {
		told, err := w.events(ctx)
		if err == nil && len(told) > 0 && !slices.ContainsFunc(told, func(e corev1.Event) bool { return e.Reason == "Ready" && e.Type == corev1.EventTypeNormal }) {
			err = errors.New("not yet")
		}
		return err
	})
}
