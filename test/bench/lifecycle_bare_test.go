package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// reel is everything that lifecycle and supervisorctl wrote for one sandbox, in order, to be written for others.
type reel struct {
	of     subject
	steps  []lifecycle.Exchange
	resume int // the step after which the controller makes the workload Pod
}

// subject is what is told apart between two sandboxes. All but the uids have the same length for all of them, so that the bytes of any
// encoding can be rewritten.
type subject struct {
	namespace, name, id, generation string
	uids                            []string // by step
	pod                             string   // the workload Pod's uid
}

// recorder takes the writes of both daemons.
type recorder struct {
	mu    sync.Mutex
	steps []lifecycle.Exchange
}

func (r *recorder) take(e lifecycle.Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Status < http.StatusMultipleChoices && !strings.Contains(e.URL, "/leases") && !strings.Contains(e.URL, "/events") {
		r.steps = append(r.steps, e)
	}
}

// newReel reads what was written for one sandbox; pod is the uid of its workload Pod.
func newReel(of subject, steps []lifecycle.Exchange) (*reel, error) {
	r := &reel{of: of, resume: -1}
	for i, step := range steps {
		var (
			uid string
			err error
		)
		if step.Method == http.MethodPost {
			if uid, err = uidIn(step.Answer); err != nil {
				return nil, fmt.Errorf("read the answer to %s %s: %w", step.Method, step.URL, err)
			}
		}
		r.of.uids = append(r.of.uids, uid)
		if strings.Contains(step.ContentType, "json") {
			if step.Body, err = unguarded(step.Body); err != nil {
				return nil, fmt.Errorf("read %s %s: %w", step.Method, step.URL, err)
			}
		}
		if step.Method == http.MethodPatch && strings.Contains(step.URL, "/"+api.Resource+"/") && resumes(step.Body) && r.resume < 0 {
			r.resume = i
		}
		r.steps = append(r.steps, step)
	}
	if r.resume < 0 {
		return nil, errors.New("no write lets the Sandbox run")
	}
	return r, nil
}

// uidIn is the uid of an object in either encoding.
func uidIn(answer []byte) (string, error) {
	var known struct{ Metadata metav1.ObjectMeta }
	if json.Unmarshal(answer, &known) == nil {
		return string(known.Metadata.UID), nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(answer, nil, nil)
	if err != nil {
		return "", err
	}
	m, ok := object.(metav1.Object)
	if !ok {
		return "", fmt.Errorf("a %T has no metadata", object)
	}
	return string(m.GetUID()), nil
}

// resumes reports whether a patch of either kind changes the spec of a Sandbox.
func resumes(patch []byte) bool {
	return bytes.Contains(patch, []byte(`"spec":`)) || bytes.Contains(patch, []byte(`"/spec/`))
}

// unguarded takes what the metadata must be out of a write, all but the uid: the bare client checks nothing.
func unguarded(body []byte) ([]byte, error) {
	var whole any
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	switch w := whole.(type) {
	case map[string]any:
		if m, ok := w["metadata"].(map[string]any); ok {
			delete(m, "resourceVersion")
		}
	case []any:
		kept := w[:0]
		for _, op := range w {
			o, _ := op.(map[string]any)
			path, _ := o["path"].(string)
			if o["op"] != "test" || !strings.HasPrefix(path, "/metadata/") || path == "/metadata/uid" {
				kept = append(kept, op)
			}
		}
		whole = kept
	}
	return json.Marshal(whole)
}

// outline is the reel in words.
func (r *reel) outline() string {
	var words []string
	for _, step := range r.steps {
		path, _, _ := strings.Cut(step.URL, "?")
		parts := strings.Split(path, "/")
		kind := parts[len(parts)-1]
		if step.Method != http.MethodPost && len(parts) > 1 {
			kind = parts[len(parts)-2]
		}
		words = append(words, strings.ToLower(step.Method)+" "+kind)
	}
	return strings.Join(words, ", ")
}

// player is a client of the API server and nothing around it.
type player struct {
	http  *http.Client
	host  string
	typed *kubernetes.Clientset
}

func newPlayer(config *rest.Config) (*player, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	typed, err := kubernetes.NewForConfig(config)
	return &player{http: client, host: config.Host, typed: typed}, err
}

// play writes the reel for another sandbox.
func (p *player) play(ctx context.Context, r *reel, to *subject) error {
	to.uids = make([]string, len(r.steps))
	for i, step := range r.steps {
		answered, err := p.send(ctx, step.Method, r.about(to, step.URL), step.ContentType, r.about(to, string(step.Body)))
		if err != nil {
			return fmt.Errorf("write %d: %w", i+1, err)
		}
		if step.Method == http.MethodPost {
			if to.uids[i], err = uidIn(answered); err != nil {
				return fmt.Errorf("write %d: %w", i+1, err)
			}
		}
		if i == r.resume {
			if to.pod, err = p.appeared(ctx, to); err != nil {
				return fmt.Errorf("wait for Pod %s/%s: %w", to.namespace, to.name, err)
			}
		}
	}
	return nil
}

func (p *player) send(ctx context.Context, method, url, kind, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.host+url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Accept", "application/json")
	answer, err := p.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %d: %.300s", method, url, answer.StatusCode, text)
	}
	return text, err
}

// about replaces what is of the reel's sandbox by what is of another.
func (r *reel) about(to *subject, text string) string {
	const short = 12 // of a generation, in names
	pairs := [][2]string{
		{r.of.id, to.id},
		{workspace.Pair(r.of.id), workspace.Pair(to.id)},
		{r.of.generation[:short], to.generation[:short]},
		{r.of.generation[short:], to.generation[short:]},
		{r.of.name, to.name},
		{r.of.namespace, to.namespace},
		{r.of.pod, to.pod},
	}
	for i, uid := range r.of.uids {
		pairs = append(pairs, [2]string{uid, to.uids[i]})
	}
	for _, pair := range pairs {
		if pair[0] != "" && pair[1] != "" {
			text = strings.ReplaceAll(text, pair[0], pair[1])
		}
	}
	return text
}

// appeared waits for the workload Pod, which the controller makes, and says its uid.
func (p *player) appeared(ctx context.Context, to *subject) (string, error) {
	w, err := p.typed.CoreV1().Pods(to.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", to.name).String(), // without a version: what is there comes first
	})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted {
			return string(pod.UID), nil
		}
	}
	return "", errors.Join(errors.New("the watch ended"), context.Cause(ctx))
}
