package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// written is one write that the daemon made.
type written struct {
	method, resource, name, kind string
	body                         []byte
}

// tape keeps the writes of a daemon that pass a proxy, as far as the API server did them, and counts all requests.
type tape struct {
	proxy *apiproxy.Proxy

	mu            sync.Mutex
	writes        []written
	reads, others map[string]int // requests by verb and resource: those that read, and those that write
}

func (t *tape) pass(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
	resource, name := resourceIn(r.URL.Path)
	if r.Method == http.MethodGet {
		verb := "GET "
		if r.URL.Query().Get("watch") != "" {
			verb = "WATCH "
		}
		t.mu.Lock()
		t.reads[verb+resource]++
		t.mu.Unlock()
		return true
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false // whoever sent it has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	t.proxy.Pass(answer, r)
	t.mu.Lock()
	t.others[r.Method+" "+resource]++
	if answer.Code < http.StatusMultipleChoices && resource != "leases" && resource != "events" {
		t.writes = append(t.writes, written{r.Method, resource, name, r.Header.Get("Content-Type"), body})
	}
	t.mu.Unlock()
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	return false
}

// newTape stands between a daemon and the API server.
func newTape(proxy *apiproxy.Proxy) *tape {
	t := &tape{proxy: proxy, reads: map[string]int{}, others: map[string]int{}}
	proxy.Break(apiproxy.Every, t.pass)
	return t
}

func (t *tape) taken() []written {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.writes)
}

// resourceIn is the resource and the name in a path of the API.
func resourceIn(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if at := slices.Index(parts, "namespaces"); at >= 0 && at+2 < len(parts) {
		parts = parts[at+2:]
	}
	if len(parts) > 1 {
		name = parts[1]
	}
	return parts[0], name
}

// script is what supervisorctl wrote for one Box, to be written for others: the same objects, in the same order.
type script struct {
	of     *supervisor.Box
	steps  []written
	resume int // the step after which the controller makes the workload Pod
	facts  facts
}

// fenceName is the policy that records name.
const fenceName = "openshell-sandbox-workloads"

// facts are what the API server chose of one set.
type facts struct {
	fence, supervisor, workload string
}

// newScript reads the writes of one Provision and looks up what they are about.
func newScript(ctx context.Context, client kubernetes.Interface, of *supervisor.Box, steps []written) (*script, error) {
	s := &script{of: of, steps: steps, resume: -1}
	for i := range s.steps {
		step := &s.steps[i]
		if step.method == http.MethodPost {
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(step.body, nil, nil)
			if err != nil {
				return nil, fmt.Errorf("read what was created of %s: %w", step.resource, err)
			}
			if step.body, err = json.Marshal(object); err != nil {
				return nil, err
			}
		}
		if step.method == http.MethodPatch {
			body, err := unguarded(step.body)
			if err != nil {
				return nil, err
			}
			step.body = body
		}
		if step.resource == api.Resource && s.resume < 0 && resumes(step.body) {
			s.resume = i
		}
	}
	if s.resume < 0 {
		return nil, errors.New("no write lets the Sandbox run")
	}
	fence, err := client.NetworkingV1().NetworkPolicies(of.Namespace).Get(ctx, fenceName, metav1.GetOptions{})
	theirs, err2 := client.CoreV1().Pods(of.Namespace).Get(ctx, of.SupervisorName(), metav1.GetOptions{})
	own, err3 := client.CoreV1().Pods(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	s.facts = facts{string(fence.UID), string(theirs.UID), string(own.UID)}
	return s, nil
}

// outline is the script in words.
func (s *script) outline() string {
	var words []string
	for _, step := range s.steps {
		words = append(words, strings.ToLower(step.method)+" "+step.resource)
	}
	return strings.Join(words, ", ")
}

// bare is client-go and nothing around it.
type bare struct {
	typed   *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
}

// newBare has no limits of its own, and speaks protobuf where the daemon does.
func newBare(config *rest.Config) (*bare, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	typed, err := kubernetes.NewForConfig(config)
	return &bare{typed, objects}, err
}

// play writes the script for another Box.
func (c *bare) play(ctx context.Context, s *script, box *supervisor.Box) error {
	now := facts{}
	for i, step := range s.steps {
		body := []byte(s.about(box, &now, string(step.body)))
		var err error
		switch {
		case step.method == http.MethodPost:
			err = c.create(ctx, box.Namespace, step.resource, body, &now)
		case step.resource == api.Resource:
			_, err = c.dynamic.Resource(sandboxes).Namespace(box.Namespace).Patch(ctx, box.Name, types.PatchType(step.kind), body, metav1.PatchOptions{})
		case step.resource == supervisor.Pods && step.method == http.MethodPatch:
			name := s.about(box, &now, step.name)
			_, err = c.typed.CoreV1().Pods(box.Namespace).Patch(ctx, name, types.JSONPatchType, body, metav1.PatchOptions{})
		default:
			err = fmt.Errorf("nobody knows how to %s %s", step.method, step.resource)
		}
		if err == nil && i == s.resume {
			now.workload, err = c.appeared(ctx, box)
		}
		if err != nil {
			return fmt.Errorf("write %d, %s %s: %w", i+1, step.method, step.resource, err)
		}
	}
	return nil
}

var sandboxes = api.V1beta1.Resource()

// about replaces what is of the script's Box by what is of another one. The id comes before the name, which begins like it.
func (s *script) about(box *supervisor.Box, now *facts, text string) string {
	short := func(generation string) string { return generation[:12] }
	for _, pair := range [][2]string{
		{s.of.ID, box.ID},
		{s.of.UID, box.UID},
		{s.of.Run.Session, box.Run.Session},
		{s.of.Run.Generation, box.Run.Generation},
		{short(s.of.Run.Generation), short(box.Run.Generation)},
		{s.of.Name, box.Name},
		{s.of.Namespace, box.Namespace},
		{s.facts.fence, now.fence},
		{s.facts.supervisor, now.supervisor},
		{s.facts.workload, now.workload},
	} {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// create makes one object and keeps what the API server chose. A fence that another one made is read.
func (c *bare) create(ctx context.Context, namespace, resource string, body []byte, now *facts) error {
	switch resource {
	case supervisor.Policies:
		wanted, err := decoded[networkingv1.NetworkPolicy](body)
		if err != nil {
			return err
		}
		client := c.typed.NetworkingV1().NetworkPolicies(namespace)
		made, err := client.Create(ctx, wanted, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = client.Get(ctx, wanted.Name, metav1.GetOptions{})
		}
		if err == nil && wanted.Name == fenceName {
			now.fence = string(made.UID)
		}
		return err
	case supervisor.Services:
		wanted, err := decoded[corev1.Service](body)
		if err != nil {
			return err
		}
		_, err = c.typed.CoreV1().Services(namespace).Create(ctx, wanted, metav1.CreateOptions{})
		return err
	case supervisor.Pods:
		wanted, err := decoded[corev1.Pod](body)
		if err != nil {
			return err
		}
		made, err := c.typed.CoreV1().Pods(namespace).Create(ctx, wanted, metav1.CreateOptions{})
		if err == nil {
			now.supervisor = string(made.UID)
		}
		return err
	case supervisor.Secrets:
		wanted, err := decoded[corev1.Secret](body)
		if err == nil {
			_, err = c.typed.CoreV1().Secrets(namespace).Create(ctx, wanted, metav1.CreateOptions{})
		}
		return err
	}
	return fmt.Errorf("nobody knows how to create %s", resource)
}

func decoded[T any](body []byte) (*T, error) {
	into := new(T)
	err := json.Unmarshal(body, into)
	return into, err
}

// appeared waits for the workload Pod, which the controller makes, and says its uid.
func (c *bare) appeared(ctx context.Context, box *supervisor.Box) (string, error) {
	w, err := c.typed.CoreV1().Pods(box.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", box.Name).String(), // without a version: what is there comes first
	})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted {
			return string(pod.UID), nil
		}
		if event.Type == watch.Error {
			return "", apierrors.FromObject(event.Object)
		}
	}
	return "", errors.Join(errors.New("the watch ended"), context.Cause(ctx))
}
