package e2e_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

// object is a JSON object.
type object = map[string]any

// theft is a supervisor that has the material of another, but for one thing.
type theft struct {
	name  string
	spoil func(t *testing.T, descriptor, auth object)
	want  string // what it ends with
}

const session = "0c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718"

var thefts = []theft{
	// The control: with everything right it gets so far that only the owner is in its way.
	{"nothing is wrong", func(*testing.T, object, object) {}, "denied: attach: another supervisor is attached"},
	{"another CA", func(t *testing.T, d, _ object) {
		d["tls"].(object)["trust_anchor_pem"] = materialtest.ForeignCA(t)
	}, "denied: the runtime's certificate: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
	{"another name", func(_ *testing.T, d, a object) {
		d["session_id"], a["session_id"] = session, session
		d["tls"].(object)["server_name"] = "sandbox." + session + ".openshell.internal"
	}, "not sandbox." + session + ".openshell.internal"},
	{"another signer", func(_ *testing.T, _, a object) {
		signing, _, _ := cutLast(a["sandbox_token"].(string), ".")
		key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
		a["sandbox_token"] = signing + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(signing)))
	}, "denied: bearer: signature"},
	{"the gateway's token", func(_ *testing.T, _, a object) {
		a["sandbox_token"] = a["gateway_token"]
	}, "denied: bearer: typ"},
	{"another Pod", func(_ *testing.T, d, _ object) {
		d["resource_claims"].(object)["kubernetes.workload_pod_uid"] = session
	}, "denied: attach: resource_claims: kubernetes.workload_pod_uid"},
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// refusals: who has the material of a supervisor and its place in the network, but another CA, another server name, another token or
// another Pod in mind, is refused by the one end or the other, and the sandbox's own supervisor goes on.
func refusals(t *testing.T, g *ground) {
	ns := g.namespace(t)
	g.History.Lawless(ns) // the thieves have the label of a supervisor and are none
	b := g.box(t, ns)
	s := g.provision(t, b)
	client := g.Cluster.Client().CoreV1()
	material, err := client.Secrets(ns).Get(t.Context(), b.SecretName("supervisor", b.Run.Generation), metav1.GetOptions{})
	noError(t, err)
	original, err := client.Pods(ns).Get(t.Context(), b.SupervisorName(), metav1.GetOptions{})
	noError(t, err)
	var names []string
	for i, theft := range thefts {
		name := fmt.Sprintf("thief-%d", i)
		descriptor, auth := read(t, material.Data["runtime-descriptor.json"]), read(t, material.Data["auth.json"])
		theft.spoil(t, descriptor, auth)
		stolen := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
		for key, value := range material.Data {
			stolen.Data[key] = value
		}
		stolen.Data["runtime-descriptor.json"], stolen.Data["auth.json"] = write(t, descriptor), write(t, auth)
		_, err := client.Secrets(ns).Create(t.Context(), stolen, metav1.CreateOptions{})
		noError(t, err)
		_, err = client.Pods(ns).Create(t.Context(), thief(original, name), metav1.CreateOptions{})
		noError(t, err)
		names = append(names, name)
	}
	for i, name := range names {
		said := ""
		cluster.Eventually(t, thefts[i].name+": the thief gives up", func(ctx context.Context) error {
			pod, err := client.Pods(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if pod.Status.Phase != corev1.PodFailed {
				return fmt.Errorf("it is %+v", pod.Status.ContainerStatuses)
			}
			said = pod.Status.ContainerStatuses[0].State.Terminated.Message
			return nil
		})
		if !strings.Contains(said, thefts[i].want) {
			t.Errorf("%s: the supervisor ends with %q, want %q", thefts[i].name, said, thefts[i].want)
		}
	}
	if got := does(t, s, "echo", "alive"); got != "alive" {
		t.Errorf("after all the channel says %q", got)
	}
}

// thief is a supervisor Pod of the same kind with its own Secret.
func thief(original *corev1.Pod, name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"openshell.ai/boundary-role": "supervisor"}},
		Spec:       *original.Spec.DeepCopy(),
	}
	pod.Spec.NodeName, pod.Spec.SchedulingGates, pod.Spec.RestartPolicy = "", nil, corev1.RestartPolicyNever
	pod.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	for i, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			pod.Spec.Volumes[i].Secret.SecretName = name
		}
	}
	return pod
}

// read keeps numbers as they are.
func read(t testing.TB, text []byte) object {
	t.Helper()
	var o object
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	noError(t, decoder.Decode(&o))
	return o
}

func write(t testing.TB, o object) []byte {
	t.Helper()
	text, err := json.Marshal(o)
	noError(t, err)
	return text
}
