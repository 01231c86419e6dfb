package rejection_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/rejection"
)

const secret = "hush-Hush-4711"

const pods = `the controller reports: pods "box" is forbidden: `

var cases = map[string]struct{ said, want string }{
	"quota of Pods": {
		pods + "exceeded quota: one-pod, requested: pods=1, used: pods=1, limited: pods=1",
		"exceeded quota: one-pod, requested: pods=1, used: pods=1, limited: pods=1",
	},
	"quota of several things, and more text": {
		pods + "exceeded quota: team.compute, requested: limits.cpu=500m,requests.nvidia.com/gpu=1, used: limits.cpu=1500m,requests.nvidia.com/gpu=0, " +
			"limited: limits.cpu=1,requests.nvidia.com/gpu=0; what the run made is still being taken away",
		"exceeded quota: team.compute, requested: limits.cpu=500m,requests.nvidia.com/gpu=1, used: limits.cpu=1500m,requests.nvidia.com/gpu=0, limited: limits.cpu=1,requests.nvidia.com/gpu=0",
	},
	"quota of a Secret": {
		`create secrets team/os-sandbox-1: the cluster refuses it: the API server answered 403 Forbidden: secrets "os-sandbox-1" is forbidden: exceeded quota: few, requested: count/secrets=1, used: count/secrets=3, limited: count/secrets=3`,
		"exceeded quota: few, requested: count/secrets=1, used: count/secrets=3, limited: count/secrets=3",
	},
	"quota, cut short":              {pods + "exceeded quota: one-pod, requested: pods=1, used: po", "exceeded quota: one-pod, requested: pods=1"},
	"quota whose name is none":      {pods + "exceeded quota: " + secret + ", requested: pods=1", ""},
	"quota of what is no number":    {pods + "exceeded quota: one-pod, requested: pods=" + secret, ""},
	"quota that counts what is odd": {pods + "exceeded quota: one-pod, requested: pods=1, used: pods=" + secret, "exceeded quota: one-pod, requested: pods=1"},
	"quota that wants limits": {
		pods + "failed quota: compute: must specify limits.cpu for: agent,copy; limits.memory for: agent",
		"failed quota: compute: must specify limits.cpu, limits.memory",
	},
	"quota that wants limits of six": {
		pods + "failed quota: c: must specify a for: x; b for: x; c for: x; d for: x; e for: x; f for: x", "failed quota: c: must specify a, b, c, d",
	},
	"Pod security": {
		pods + `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "` + secret + `" must set securityContext.allowPrivilegeEscalation=false), ` +
			`unrestricted capabilities (container "agent" must set securityContext.capabilities.drop=["ALL"]), seccompProfile (pod or container "agent" must set …)`,
		`violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false, seccompProfile, unrestricted capabilities`,
	},
	"Pod security, of a check that is not known": {pods + `violates PodSecurity "baseline:v1.37": ` + secret + ` (x)`, `violates PodSecurity "baseline:v1.37"`},
	"Pod security, a level that is none":         {pods + `violates PodSecurity "` + secret + `:latest": hostPort (x)`, ""},
	"limit range, greatest":                      {pods + "[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Pod is 1Gi, but limit is 2Gi]", "limit range: maximum cpu usage per Container is 1, but limit is 2"},
	"limit range, nothing asked":                 {pods + "minimum memory usage per Container is 4Mi.  No request is specified", "limit range: minimum memory usage per Container is 4Mi"},
	"limit range, ratio":                         {pods + "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000", "limit range: cpu max limit to request ratio per Container is 2"},
	"limit range of what is no number":           {pods + "maximum cpu usage per Container is " + secret, ""},
	"security context constraint": {
		pods + `unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable by user or serviceaccount, ` +
			`provider restricted-v2: .spec.securityContext.fsGroup: Invalid value: []int64{4711}: ` + secret + ` is not an allowed group, ` +
			`provider restricted-v2: .containers[0].runAsUser: Invalid value: 4711: must be in the ranges: [1, 2]]`,
		"unable to validate against any security context constraint (restricted-v2: spec.securityContext.fsGroup; restricted-v2: containers[0].runAsUser)",
	},
	"security context constraint, none usable":           {pods + `unable to validate against any security context constraint: []`, "unable to validate against any security context constraint"},
	"image policy backend that speaks as a quota":        {pods + `image policy webhook backend denied one or more images: exceeded quota: x, requested: pods=1`, ""},
	"image policy backend that speaks as the API server": {pods + `image policy webhook backend denied one or more images: ` + pods + `exceeded quota: x, requested: pods=1`, ""},
	"authorizer that speaks as a quota":                  {pods + `User "a" cannot create resource "pods" in API group "": exceeded quota: x, requested: pods=1`, ""},
	"webhook that fails and speaks as a quota":           {`Internal error occurred: failed calling webhook "x": ` + pods + `exceeded quota: x, requested: pods=1`, ""},
	"webhook that fails and speaks of a field":           {`failed calling webhook "x": an error on the server: Pod "box" is invalid: spec.x: no`, ""},
	"conversion that fails and speaks as a quota":        {`conversion webhook for x failed: ` + pods + `exceeded quota: x, requested: pods=1`, ""},
	"nobody who speaks as a quota":                       {`the controller reports: exceeded quota: x, requested: pods=1`, ""},
	"a field whose value speaks as a quota":              {`Pod "box" is invalid: spec.x: Invalid value: "pods "a" is forbidden: exceeded quota: x, requested: pods=1"`, "a field is invalid: spec.x"},
	"webhook":                                            {pods + `admission webhook "images.example.org" denied the request: no ` + secret, "the admission webhook images.example.org denies it"},
	"webhook that speaks as a quota":                     {pods + `admission webhook "images.example.org" denied the request: exceeded quota: ` + strings.ToLower(secret) + `, requested: pods=1`, "the admission webhook images.example.org denies it"},
	"webhook whose name is none":                         {pods + `admission webhook "` + secret + `" denied the request: exceeded quota: one-pod, requested: pods=1`, ""},
	"policy":                                             {pods + `ValidatingAdmissionPolicy 'no-root' with binding 'all' denied request: exceeded quota: x, requested: pods=1`, "the admission policy no-root denies it"},
	"namespace that ends":                                {pods + "unable to create new content in namespace team because it is being terminated", "the namespace is being terminated"},
	"a field":                                            {`the controller reports: Pod "box" is invalid: spec.containers[0].volumeMounts[0].name: Not found: "` + secret + `"`, "a field is invalid: spec.containers[0].volumeMounts[0].name"},
	"fields":                                             {`Pod "box" is invalid: [spec.volumes[2].name: Duplicate value: "` + secret + `", spec.x: Invalid value: 1]`, "a field is invalid: spec.volumes[2].name"},
	"a field that is a key":                              {`Pod "box" is invalid: metadata.annotations[` + secret + `]: Invalid value: 1`, ""},
	"a missing right":                                    {pods + `User "system:serviceaccount:a:b" cannot create resource "pods"`, ""},
	"something else":                                     {"the connection was refused", ""},
	"nothing":                                            {"", ""},
}

func TestWords(t *testing.T) {
	for name, c := range cases {
		got := rejection.Words(c.said)
		if got != c.want {
			t.Errorf("%s: %q\nwant %q", name, got, c.want)
		}
		checkForm(t, c.said, got)
	}
}

// checkForm demands what holds of whatever is said.
func checkForm(t *testing.T, said, got string) {
	t.Helper()
	if len(got) > 208 || strings.ContainsFunc(got, unicode.IsControl) || strings.Contains(got, secret) {
		t.Errorf("of %q is told %q", said, got)
	}
}

// A list that is too long ends where one of its members does.
func TestWordsAreBounded(t *testing.T) {
	usage := make([]string, 0, 40)
	for _, r := range strings.Fields("cpu memory ephemeral-storage requests.cpu requests.memory limits.cpu limits.memory pods services secrets configmaps") {
		usage = append(usage, r+"=1000000m")
	}
	list := strings.Join(usage, ",")
	got := rejection.Words(pods + "exceeded quota: compute, requested: " + list + ", used: " + list + ", limited: " + list)
	if !strings.HasPrefix(got, "exceeded quota: compute, requested: cpu=1000000m,") || !strings.HasSuffix(got, "=1000000m, ...") || len(got) > 208 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	long := strings.Repeat("q", 253)
	if got := rejection.Words(pods + "exceeded quota: " + long + ", requested: pods=1"); len(got) > 208 || !strings.HasPrefix(got, "exceeded quota: qqq") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := rejection.Words(strings.Repeat("x", 4096) + cases["quota of Pods"].said); got != "" {
		t.Errorf("what is too long is read to its end: %q", got)
	}
}

// What was cut is not told as a whole: neither half a number nor half a name.
func TestWhatIsCut(t *testing.T) {
	text := pods + "exceeded quota: few, requested: pods=10, used: pods=150, limited: pods=1500, and more"
	for most := 60; most < len(text); most++ {
		got := rejection.Words(rejection.Bounded(text, most))
		switch got {
		case "", "exceeded quota: few, requested: pods=10", "exceeded quota: few, requested: pods=10, used: pods=150, limited: pods=1500":
		default:
			t.Errorf("of the first %d bytes is told %q", most, got)
		}
	}
	if got := rejection.Bounded(strings.Repeat("é", 300), 500); len(got) > 500 || !strings.HasSuffix(got, "é...") {
		t.Errorf("%q", got)
	}
	if got := rejection.Bounded("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
}

// Of what words are told, it is also known that it is a rejection.
func TestOf(t *testing.T) {
	for name, c := range cases {
		if c.want != "" && !rejection.Of(c.said) {
			t.Errorf("%s: of %q is told %q, and it is taken for something that passes", name, c.said, c.want)
		}
	}
	for said, want := range map[string]bool{
		"": false, "the connection was refused": false, pods + "status unknown for quota: few, resources: pods": false, pods + "no": true, pods + "failed quota: c: must specify a": true,
	} {
		if rejection.Of(said) != want {
			t.Errorf("%q: %t", said, !want)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, c := range cases {
		f.Add(c.said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		got := rejection.Words(said)
		if len(got) > 208 || strings.ContainsFunc(got, func(r rune) bool { return r > '~' || r < ' ' }) {
			t.Errorf("of %q is told %q", said, got)
		}
	})
}
