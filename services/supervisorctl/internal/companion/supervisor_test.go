package companion_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/mainprocess"
)

func TestTokenSeconds(t *testing.T) {
	for _, c := range []struct{ setting, want int64 }{
		{-1, 3600}, {0, 3600}, {1, 600}, {599, 600}, {600, 600}, {3600, 3600}, {86400, 86400}, {86401, 86400}, {1 << 62, 86400},
	} {
		w := base(t)
		w.settings.SATokenTTLSecs = c.setting
		projected := volume(t, w.pod(t), "sa-token").Projected
		if got := *projected.Sources[0].ServiceAccountToken.ExpirationSeconds; got != c.want {
			t.Errorf("sa_token_ttl_secs %d gives %d, want %d", c.setting, got, c.want)
		}
	}
}

func volume(t *testing.T, pod *corev1.Pod, name string) corev1.Volume {
	t.Helper()
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("there is no volume %s", name)
	}
	return pod.Spec.Volumes[i]
}

func env(pod *corev1.Pod, name string) (string, bool) {
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// expanded is what the kubelet makes of a text: $$ is a dollar, $(NAME) the variable if there is one.
func expanded(text string, variables map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		end := strings.IndexByte(text[i:], ')')
		switch {
		case text[i+1] == '$':
			out.WriteByte('$')
			i++
		case text[i+1] == '(' && end > 0:
			if value, ok := variables[text[i+2:i+end]]; ok {
				out.WriteString(value)
			} else {
				out.WriteString(text[i : i+end+1])
			}
			i += end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

// TestNothingIsExpanded starts the supervisor as the kubelet would: what arrives must be what was given.
func TestNothingIsExpanded(t *testing.T) {
	for _, tricky := range []string{"$(OPENSHELL_ENDPOINT)", "$$(OPENSHELL_ENDPOINT)", "$$", "$", "a$b$", "$$$", "$(", "$(A)$(OPENSHELL_SANDBOX_ID)$"} {
		w := base(t)
		spec, err := mainprocess.Encode(mainprocess.Process{Command: []string{"/bin/echo", tricky}})
		if err != nil {
			t.Fatal(err)
		}
		w.sandbox.MainProcess = spec
		w.settings.HTTPSProxy, w.settings.NoProxy = "https://proxy.example", tricky
		pod := w.pod(t)
		variables := map[string]string{}
		for _, v := range pod.Spec.Containers[0].Env {
			variables[v.Name] = expanded(v.Value, variables)
		}
		if got := variables["OPENSHELL_MAIN_PROCESS_SPEC"]; got != spec {
			t.Errorf("%s arrives as %s", spec, got)
		}
		command := pod.Spec.Containers[0].Command
		if got := expanded(command[slices.Index(command, "--upstream-no-proxy")+1], variables); got != tricky {
			t.Errorf("%s arrives as %s", tricky, got)
		}
	}
}

func TestMainProcessIsRenderedAsJSON(t *testing.T) {
	w := base(t)
	w.sandbox.MainProcess = "base64url:eyJ2ZXJzaW9uIjoxLCJjb21tYW5kIjpbIi9iaW4vcnVuIl0sInR0eSI6dHJ1ZX0"
	got, _ := env(w.pod(t), "OPENSHELL_MAIN_PROCESS_SPEC")
	if want := `{"version":1,"command":["/bin/run"],"tty":true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestAMalformedTraceIsLeftOut: a trace never stops a sandbox.
func TestAMalformedTraceIsLeftOut(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct {
		name, parent, state   string
		wantParent, wantState bool
	}{
		{"none", "", "", false, false},
		{"both", good, "a=b", true, true},
		{"no state", good, "", true, false},
		{"upper case", strings.ToUpper(good), "a=b", false, false},
		{"cut", good[:40], "a=b", false, false},
		{"with a line break", good + "\n", "a=b", false, false},
		{"state with a line break", good, "a=b\n", true, false},
		{"state too long", good, strings.Repeat("a", 513), true, false},
	} {
		w := base(t)
		w.settings.SupervisorOTLPEndpoint = "http://collector.example:4317"
		w.sandbox.TraceParent, w.sandbox.TraceState = c.parent, c.state
		pod := w.pod(t)
		if _, got := env(pod, "TRACEPARENT"); got != c.wantParent {
			t.Errorf("%s: TRACEPARENT is there: %t", c.name, got)
		}
		if _, got := env(pod, "TRACESTATE"); got != c.wantState {
			t.Errorf("%s: TRACESTATE is there: %t", c.name, got)
		}
	}
	w := base(t)
	w.sandbox.TraceParent = good
	if _, got := env(w.pod(t), "TRACEPARENT"); got {
		t.Error("a trace is passed on to a supervisor that sends no spans")
	}
}

// TestNoMountHidesAnother and no variable or volume is there twice, in any of the golden cases.
func TestNoMountHidesAnother(t *testing.T) {
	for _, c := range goldenCases {
		w := base(t)
		c.change(w)
		pod := w.pod(t)
		seen := map[string]bool{}
		once := func(what string) {
			if seen[what] {
				t.Errorf("%s: %s is there twice", c.name, what)
			}
			seen[what] = true
		}
		for _, v := range pod.Spec.Volumes {
			once("volume " + v.Name)
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			once("mount path " + m.MountPath)
			once("mount of " + m.Name)
		}
		for _, v := range pod.Spec.Containers[0].Env {
			once("variable " + v.Name)
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			volume(t, pod, m.Name)
		}
	}
}
