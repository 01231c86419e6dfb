package authenticate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// deserves says the same as the evaluator in another way: what a grant needs, all at once, without order, words or reasons,
// and without the packages that the evaluator asks about names.
func (w *world) deserves() bool {
	namespace := namespaceIn(w.mode)
	one := func(values authenticationv1.ExtraValue, want string) bool {
		return len(values) == 1 && values[0] == want && want != ""
	}
	review := w.reviewIs == found && w.review.Authenticated && slices.Contains(w.review.Audiences, "openshell-gateway") &&
		w.review.User.Username == "system:serviceaccount:"+namespace+":sandbox-runner" &&
		one(w.review.User.Extra["authentication.kubernetes.io/pod-name"], podName) &&
		one(w.review.User.Extra["authentication.kubernetes.io/pod-uid"], string(w.pod.UID))
	id := w.pod.Annotations["openshell.ai/sandbox-id"]
	if former, ok := w.pod.Annotations["openshell.io/sandbox-id"]; ok {
		if today, ok := w.pod.Annotations["openshell.ai/sandbox-id"]; ok && today != former {
			return false
		}
		id = former
	}
	l := w.pod.Labels
	pod := w.podIs == found && w.pod.Name == podName && w.pod.Namespace == namespace && w.pod.DeletionTimestamp == nil && id != "" &&
		l["openshell.ai/boundary-role"] == "supervisor" && l["openshell.ai/boundary-pair"] == strings.ToLower(id) &&
		l["openshell.ai/sandbox-id"] == id && podName == "os-supervisor-"+strings.ToLower(id)
	var owners []metav1.OwnerReference
	for _, r := range w.pod.OwnerReferences {
		if r.Kind == "Sandbox" && (r.APIVersion == "agents.x-k8s.io/v1beta1" || r.APIVersion == "agents.x-k8s.io/v1alpha1") {
			owners = append(owners, r)
		}
	}
	if len(owners) != 1 {
		return false
	}
	o, s := owners[0], w.sandbox
	sandbox := w.boxIs == found && s.Labels["openshell.ai/managed-by"] == "openshell" && (o.Controller == nil || !*o.Controller) && o.Name == boxName && s.Name == boxName && s.Namespace == namespace &&
		o.APIVersion == "agents.x-k8s.io/"+string(w.version) && string(o.UID) == s.UID && s.UID != "" && s.Labels["openshell.ai/sandbox-id"] == id &&
		!s.Deleting && s.Labels["openshell.ai/gateway-id"] == "a" &&
		s.Annotations["openshell.ai/sandbox-runtime-supervisor-uid"] == string(w.pod.UID) &&
		!strings.Contains(s.UID, "/") && !strings.Contains(string(w.pod.UID), "/")
	mode, live := true, w.nsIs == found && w.namespace.Name == namespace && w.namespace.DeletionTimestamp == nil
	switch w.mode {
	case driverconf.ModeShared:
	case driverconf.ModeManaged:
		// Made from the gateway and the workspace, the name is that of this namespace, by what the Sandbox says and by what the
		// namespace itself says; and it says that it is ours.
		n := w.namespace.Labels
		mode = live && n["openshell.ai/managed-by"] == "openshell" &&
			"openshell-"+n["openshell.ai/gateway-id"]+"-"+n["openshell.ai/sandbox-workspace"] == namespace && n["openshell.ai/gateway-id"] == "a" &&
			"openshell-a-"+s.Labels["openshell.ai/sandbox-workspace"] == namespace
	case driverconf.ModeOperator:
		mode = live
		for _, a := range []allowlist.Answer{w.list, w.again} {
			mode = mode && a.Allowed() && a.Namespace == namespace && (a.UID == "" || a.UID == string(w.namespace.UID))
		}
	}
	return w.bytes > 0 && w.bytes <= 16384 && !w.odd && w.gateway == "a" && review && pod && sandbox && mode
}

// pick returns the first value mostly, and any of the others now and then.
func pick[T any](r *rand.Rand, usual T, others ...T) T {
	if r.IntN(40) == 0 {
		return others[r.IntN(len(others))]
	}
	return usual
}

// anyWorld is random facts, most of them right or wrong in few places, some consistent in another way than the valid ones.
func anyWorld(t *testing.T, r *rand.Rand) *world {
	mode := modes[r.IntN(len(modes))]
	w := valid(t, mode)
	pickHow := func() how { return pick(r, found, missing, failed, unasked) }
	w.reviewIs, w.nsIs, w.podIs, w.boxIs = pickHow(), pickHow(), pickHow(), pickHow()
	w.bytes, w.odd, w.gateway = pick(r, 900, 0, 16385, -1), pick(r, false, true), pick(r, "a", "", "b", "a-b")
	// Another uid or id is right when all who name it agree.
	uid := pick(r, podUID, "uid-2", "", "a/b")
	box := pick(r, boxUID, "uid-3", "", "c/d")
	id := pick(r, sandboxID, "0a4b8c1e-5f0e", "s2", "")
	w.review.Authenticated = pick(r, true, false)
	w.review.Audiences = pick(r, []string{Audience}, nil, []string{"x", Audience}, []string{"x"}, []string{""})
	w.review.User.Username = pick(r, w.review.User.Username, "", "system:serviceaccount:openshell-a-d:sandbox-runner", "system:serviceaccount:other:sandbox-runner",
		"system:serviceaccount:"+namespaceIn(mode)+":default", w.review.User.Username+":")
	extra(w, ExtraPodName, pick(r, []string{podName}, nil, []string{""}, []string{"other"}, []string{"a/b"}, []string{podName, podName})...)
	extra(w, ExtraPodUID, pick(r, []string{uid}, nil, []string{""}, []string{podUID}, []string{uid, uid})...)
	w.namespace.UID, w.namespace.Name = pick(r, w.namespace.UID, "uid-4", ""), pick(r, w.namespace.Name, "other", "")
	if mode == driverconf.ModeManaged {
		// Some are consistent in themselves: workspace c of gateway a-b has a namespace of this name.
		owner, space := pick(r, "a", "a-b", ""), pick(r, team, "c", "d", "")
		if r.IntN(20) == 0 {
			owner, space = "a-b", "c"
		}
		w.namespace.Labels = map[string]string{
			"openshell.ai/managed-by": pick(r, "openshell", "", "other"), "openshell.ai/gateway-id": owner, "openshell.ai/sandbox-workspace": space,
		}
		w.namespace.Labels = pick(r, w.namespace.Labels, nil)
	}
	w.pod.UID, w.pod.Name, w.pod.Namespace = types.UID(pick(r, uid, podUID, "uid-5")), pick(r, podName, "other"), pick(r, w.pod.Namespace, "other", "")
	w.pod.Annotations = pick(r, map[string]string{"openshell.ai/sandbox-id": id}, nil, map[string]string{"openshell.io/sandbox-id": id},
		map[string]string{"openshell.ai/sandbox-id": id, "openshell.io/sandbox-id": id}, map[string]string{"openshell.ai/sandbox-id": id, "openshell.io/sandbox-id": "s3"})
	w.pod.Labels = map[string]string{
		"openshell.ai/boundary-role": pick(r, "supervisor", "workload", "", "Supervisor"),
		"openshell.ai/boundary-pair": pick(r, strings.ToLower(id), id, "s2", ""), "openshell.ai/sandbox-id": pick(r, id, "s2", ""),
	}
	*w.owner() = metav1.OwnerReference{
		APIVersion: "agents.x-k8s.io/" + pick(r, string(w.version), "v1alpha1", "v1"), Kind: pick(r, "Sandbox", "sandbox", "Pod"),
		Name: pick(r, boxName, "other", "", "a/b"), UID: types.UID(pick(r, box, boxUID, "uid-6")), Controller: pick(r, nil, new(bool), ptr(true)),
	}
	w.pod.OwnerReferences = pick(r, w.pod.OwnerReferences, nil, append(slices.Clone(w.pod.OwnerReferences), *w.owner()))
	for _, at := range []**metav1.Time{&w.pod.DeletionTimestamp, &w.namespace.DeletionTimestamp} {
		*at = pick(r, nil, &deleted, &metav1.Time{})
	}
	w.sandbox.UID, w.sandbox.Name, w.sandbox.Namespace = pick(r, box, boxUID, "uid-7"), pick(r, boxName, "other"), pick(r, w.sandbox.Namespace, "other")
	w.sandbox.Deleting = pick(r, false, true)
	w.sandbox.Labels = map[string]string{
		"openshell.ai/managed-by": pick(r, "openshell", "", "other"),
		"openshell.ai/sandbox-id": pick(r, id, "s2", ""), "openshell.ai/gateway-id": pick(r, "a", "a-b", ""), "openshell.ai/sandbox-workspace": pick(r, team, "c", "d", ""),
	}
	w.sandbox.Annotations = map[string]string{"openshell.ai/sandbox-runtime-supervisor-uid": pick(r, uid, podUID, "uid-8", "")}
	if mode == driverconf.ModeOperator {
		w.list.UID = pick(r, w.list.UID, "", "uid-9")
		w.again.UID = pick(r, w.list.UID, "", namespaceUID)
		for _, a := range []*allowlist.Answer{&w.list, &w.again} {
			*a = pick(r, *a, allowlist.Answer{}, allowlist.Answer{Namespace: team}, allowlist.Answer{Namespace: team, Reason: "stale"})
			a.Namespace, a.UID = pick(r, a.Namespace, "other", ""), pick(r, a.UID, "", "uid-10")
		}
	}
	return w
}

func ptr[T any](v T) *T { return &v }

// No combination of facts with an unmet check yields a grant, and no other combination is refused.
func TestAGrantNeedsEveryCheck(t *testing.T) {
	grants, refusals := 0, map[string]int{}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		for range 5_000 {
			w := anyWorld(t, r)
			got := evaluatorIn(t, w.mode).Evaluate(w.facts())
			if got.Decision.Granted() != w.deserves() {
				t.Fatalf("seed %d: %s, and deserved is %v, for %+v", seed, got.Decision.Explain(), w.deserves(), w)
			}
			if got.Decision.Granted() {
				grants++
				want := "kubernetes://" + namespaceIn(w.mode) + "/" + w.sandbox.UID + "/" + string(w.pod.UID)
				if got.Identity.String() != want || got.SandboxID != w.sandbox.Labels["openshell.ai/sandbox-id"] {
					t.Fatalf("identity %s of %q, want %s", got.Identity, got.SandboxID, want)
				}
			} else {
				refusals[got.Decision.Step]++
			}
		}
	}
	if grants < 1_000 {
		t.Errorf("only %d grants: the property was hardly tried", grants)
	}
	for i := range steps {
		if refusals[steps[i].name] == 0 {
			t.Errorf("no random facts were refused by %s", steps[i].name)
		}
	}
}

// Texts that come from outside: whatever they are, nothing is granted that should not be, and an explanation is one line.
func FuzzTexts(f *testing.F) {
	namespaces := []string{namespaceIn(shared), namespaceIn(managed), namespaceIn(operator)}
	for i, namespace := range namespaces {
		f.Add(uint8(i), "system:serviceaccount:"+namespace+":sandbox-runner", podName, podUID, sandboxID, sandboxID, sandboxID, team, podUID)
	}
	f.Add(uint8(1), "system:serviceaccount:openshell-a-b-c:sandbox-runner", podName, podUID, "\u212a", "k", "", "c", "")
	f.Add(uint8(2), "system:serviceaccount:b-c:sandbox-runner\n", "../pods/x", "a\x00b", "a\r\nb", "\xff", "x", "", podUID+" ")
	f.Fuzz(func(t *testing.T, mode uint8, username, name, uid, today, former, label, workspace, recorded string) {
		w := valid(t, modes[int(mode)%len(modes)])
		w.review.User.Username = username
		extra(w, ExtraPodName, name)
		extra(w, ExtraPodUID, uid)
		w.pod.Annotations = map[string]string{"openshell.ai/sandbox-id": today, "openshell.io/sandbox-id": former}
		w.pod.Labels["openshell.ai/sandbox-id"] = label
		w.sandbox.Labels["openshell.ai/sandbox-workspace"] = workspace
		w.sandbox.Annotations = map[string]string{"openshell.ai/sandbox-runtime-supervisor-uid": recorded}
		r, findings := evaluatorIn(t, w.mode).Explain(w.facts())
		if r.Decision.Granted() != w.deserves() {
			t.Fatalf("%s, and deserved is %v", r.Decision.Explain(), w.deserves())
		}
		for _, finding := range findings {
			if strings.ContainsFunc(finding.Evidence, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' }) {
				t.Fatalf("evidence of %s is not one line: %q", finding.Step.Name, finding.Evidence)
			}
		}
	})
}

// What the API server says about a credential is shown without any part that could be of it.
func FuzzHarmless(f *testing.F) {
	const jwt = "eyJhbGciOiJSUzI1NiIsImtpZCI6IkFCQ0QifQ.eyJhdWQiOlsib3BlbnNoZWxsLWdhdGV3YXkiXX0.c2lnbmF0dXJlLXRoYXQtaXMtbG9uZy1lbm91Z2g"
	f.Add("cannot parse " + jwt)
	f.Add("token " + jwt + "\nforged: line")
	f.Add(strings.Repeat("x ", 400))
	f.Add("[invalid bearer token, service account token has expired]")
	f.Fuzz(func(t *testing.T, text string) {
		got := harmless(text)
		if len(got) > 2*longestText || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == '\u2028' }) {
			t.Fatalf("%q has %d bytes", got, len(got))
		}
		run := 0
		for _, r := range got {
			if run++; !inToken(r) {
				run = 0
			}
			if run > 24 {
				t.Fatalf("%q shows a run of more than 24 characters", got)
			}
		}
	})
}

func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"[invalid bearer token, service account token has expired]": "[invalid bearer token, service account token has expired]",
		"bad " + strings.Repeat("aB1_", 30) + ".x":                  "bad [120 characters].x",
		"one\nline":                      "one line",
		"invalid \xff\u2028text\x1b[31m": "invalid   text [31m",
	} {
		if got := harmless(text); got != want {
			t.Errorf("harmless(%q) = %q, want %q", text, got, want)
		}
	}
	long := harmless(strings.Repeat("word ", 1000))
	if len(long) > longestText+10 || !strings.HasSuffix(long, "...") {
		t.Errorf("a long text becomes %d bytes: %q", len(long), long)
	}
}
