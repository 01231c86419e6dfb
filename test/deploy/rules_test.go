package deploy_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// rules are what every rendering keeps.
var rules = map[string]func(*deploy.World) breaches{
	"Pods are restricted":       podsRestricted,
	"Pods are frugal":           podsFrugal,
	"images are of one release": imagesAgree,
	"replicas are apart":        replicasAreApart,
	"servers are apart":         serversAreApart,
	"keys stay apart":           keysStayApart,
	"Pods end in their time":    podsEnd,
	"Pods are probed":           podsProbed,
	"Pods tell what is wrong":   podsTell,
	"files follow changes":      filesFollow,
	"settings are hashed":       settingsAreHashed,
	"Jobs end":                  jobsEnd,
	"nothing is missing":        nothingIsMissing,
	"Services serve":            servicesServe,
	"budgets hold":              budgetsHold,
	"policies fit":              policiesFit,
	"calls get through":         callsGetThrough,
	"copies fit":                copiesFit,
	"bindings bind":             bindingsBind,
	"rights are narrow":         rightsAreNarrow,
	"lists are full":            listsAreFull,
	"names are whole":           namesAreWhole,
	"settings are read as one":  settingsAgree,
	"Pods wait":                 podsWaitForWhatIsMissing,
	"writes are guarded":        writesAreGuarded,
	"nothing is vouched for":    nothingIsVouchedFor,
}

func survey(t *testing.T, objects []*unstructured.Unstructured) *deploy.World {
	t.Helper()
	w, err := deploy.Survey(objects)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRules(t *testing.T) {
	t.Parallel()
	for name, rendering := range rendered(t) {
		for title, rule := range rules {
			t.Run(name+"/"+title, func(t *testing.T) {
				t.Parallel()
				for _, breach := range rule(survey(t, rendering.Objects)) {
					t.Error(breach)
				}
			})
		}
	}
}

// at sets a value deep inside the object of a kind and name. A number in path is an index; nil removes.
func at(kind, name string, value any, path ...any) func([]*unstructured.Unstructured) bool {
	return func(objects []*unstructured.Unstructured) bool {
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == kind && (o.GetName() == name || strings.HasPrefix(o.GetName(), name+"-") && kind == "ConfigMap")
		})
		if i < 0 {
			return false
		}
		var inside any = objects[i].Object
		for n, step := range path {
			last := n == len(path)-1
			switch s := step.(type) {
			case string:
				m := inside.(map[string]any)
				if last && value == nil {
					delete(m, s)
				} else if last {
					m[s] = value
				}
				inside = m[s]
			case int:
				l := inside.([]any)
				if last {
					l[s] = value
				}
				inside = l[s]
			}
		}
		return true
	}
}

// together does what each of several does.
func together(changes ...func([]*unstructured.Unstructured) bool) func([]*unstructured.Unstructured) bool {
	return func(objects []*unstructured.Unstructured) bool {
		return !slices.ContainsFunc(changes, func(change func([]*unstructured.Unstructured) bool) bool { return !change(objects) })
	}
}

const (
	spec     = "spec"
	template = "template"
)

// container is the way to a field of the only container of a Deployment.
func container(path ...any) []any {
	return append([]any{spec, template, spec, "containers", 0}, path...)
}

// TestRulesNotice: each rule notices what it is for, in an installation that is right but for it.
func TestRulesNotice(t *testing.T) {
	t.Parallel()
	type list = []any
	type object = map[string]any
	tests := map[string]struct {
		rule, want string
		of         string // the rendering; operator-label if empty
		breaks     func([]*unstructured.Unstructured) bool
	}{
		"as root":                {rule: "Pods are restricted", want: "runAsNonRoot", breaks: at("Deployment", "nswatch", nil, spec, template, spec, "securityContext", "runAsNonRoot")},
		"any system call":        {rule: "Pods are restricted", want: "seccompProfile", breaks: at("Deployment", "nswatch", nil, spec, template, spec, "securityContext", "seccompProfile")},
		"capabilities":           {rule: "Pods are restricted", want: "capabilities", breaks: at("Deployment", "lifecycle", nil, container("securityContext", "capabilities")...)},
		"writable root":          {rule: "Pods are restricted", want: "can write to the root", breaks: at("Deployment", "lifecycle", false, container("securityContext", "readOnlyRootFilesystem")...)},
		"Services in the env":    {rule: "Pods are frugal", want: "addresses of all Services", breaks: at("Deployment", "lifecycle", true, spec, template, spec, "enableServiceLinks")},
		"no memory limit":        {rule: "Pods are frugal", want: "a limit of memory", breaks: at("Deployment", "lifecycle", nil, container("resources", "limits")...)},
		"throttled":              {rule: "Pods are frugal", want: "none of processor time", breaks: at("Deployment", "lifecycle", object{"cpu": "1", "memory": "1Gi"}, container("resources", "limits")...)},
		"no tag":                 {rule: "Pods are frugal", want: "whatever registry.example:5000/tokenauth is today", breaks: at("Deployment", "tokenauth", "registry.example:5000/tokenauth", container("image")...)},
		"another release":        {rule: "images are of one release", want: "v0.0.9", breaks: at("Deployment", "tokenauth", "registry.example/portcullis/tokenauth:v0.0.9", container("image")...)},
		"collector too late":     {rule: "Pods are frugal", want: "GOMEMLIMIT", breaks: at("Deployment", "tokenauth", "256MiB", container("env", 3, "value")...)},
		"collector of none":      {rule: "Pods are frugal", want: "container tokenauth of Deployment tokenauth has no GOMEMLIMIT", breaks: at("Deployment", "tokenauth", "OTHER", container("env", 3, "name")...)},
		"NATS has no collector":  {rule: "Pods are frugal", want: "container nats of StatefulSet nats has no GOMEMLIMIT", breaks: at("StatefulSet", "nats", "OTHER", container("env", 1, "name")...)},
		"killed while it stops":  {rule: "Pods end in their time", want: "killed in the middle", breaks: at("Deployment", "tokenauth", int64(22), spec, template, spec, "terminationGracePeriodSeconds")},
		"ends without a word":    {rule: "Pods end in their time", want: "nobody sees why", breaks: at("Deployment", "tokenauth", nil, container("terminationMessagePolicy")...)},
		"NATS ends silently":     {rule: "Pods end in their time", want: "container nats of StatefulSet nats", breaks: at("StatefulSet", "nats", nil, container("terminationMessagePolicy")...)},
		"a Job ends silently":    {rule: "Pods end in their time", want: "container audit of Job nats-bootstrap", breaks: at("Job", "nats-bootstrap", nil, container("terminationMessagePolicy")...)},
		"servers on one node":    {of: "ha", rule: "servers are apart", want: "two servers", breaks: at("StatefulSet", "nats", nil, spec, template, spec, "affinity", "podAntiAffinity")},
		"servers may share":      {of: "ha", rule: "servers are apart", want: "two servers", breaks: at("StatefulSet", "nats", object{"app": "x"}, spec, template, spec, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution", 0, "labelSelector", "matchLabels")},
		"servers in one zone":    {of: "ha", rule: "servers are apart", want: "not spread", breaks: at("StatefulSet", "nats", nil, spec, template, spec, "topologySpreadConstraints")},
		"NATS has the key":       {rule: "keys stay apart", want: "StatefulSet nats has the signing key", breaks: at("StatefulSet", "nats", signing, spec, template, spec, "volumes", 1, "secret", "secretName")},
		"NATS has a seed":        {rule: "keys stay apart", want: "Secret portcullis-nswatch-nats", breaks: at("StatefulSet", "nats", "portcullis-nswatch-nats", spec, template, spec, "volumes", 1, "secret", "secretName")},
		"NATS is told the key":   {rule: "keys stay apart", want: "StatefulSet nats has the signing key", breaks: at("StatefulSet", "nats", list{object{"secretRef": object{"name": signing}}}, container("envFrom")...)},
		"a reader has the key":   {rule: "keys stay apart", want: "Deployment tokenauth has the signing key", breaks: at("Deployment", "tokenauth", signing, spec, template, spec, "volumes", 1, "secret", "secretName")},
		"spread with the last":   {rule: "replicas are apart", want: "release before", breaks: at("Deployment", "tokenauth", nil, spec, template, spec, "topologySpreadConstraints", 0, "matchLabelKeys")},
		"not spread":             {rule: "replicas are apart", want: "by kubernetes.io/hostname", breaks: at("Deployment", "tokenauth", "rack", spec, template, spec, "topologySpreadConstraints", 0, "topologyKey")},
		"no readiness":           {rule: "Pods are probed", want: "no readiness probe", breaks: at("Deployment", "tokenauth", nil, container("readinessProbe")...)},
		"probe of no port":       {rule: "Pods are probed", want: "for port admin", breaks: at("Deployment", "tokenauth", "admin", container("livenessProbe", "httpGet", "port")...)},
		"ended while it waits":   {rule: "Pods are probed", want: "ends it after 60 s", breaks: at("Deployment", "tokenauth", "/readyz", container("startupProbe", "httpGet", "path")...)},
		"does not know its uid":  {rule: "Pods tell what is wrong", want: "POD_UID is not metadata.uid", breaks: at("Deployment", "tokenauth", "POD_ID", container("env", 2, "name")...)},
		"may not tell":           {rule: "Pods tell what is wrong", want: "Deployment tokenauth may not write Events", breaks: at("Role", "tokenauth", list{"create"}, "rules", 0, "verbs")},
		"list by subPath":        {of: "operator-file", rule: "files follow changes", want: "a subPath at /etc/portcullis/namespaces", breaks: at("Deployment", "nswatch", "namespaces.json", container("volumeMounts", 0, "subPath")...)},
		"mount of nothing":       {rule: "files follow changes", want: "there is no such volume", breaks: at("Deployment", "tokenauth", "other", container("volumeMounts", 0, "name")...)},
		"settings without hash":  {rule: "settings are hashed", want: "no hash", breaks: at("ConfigMap", "portcullis-config", "portcullis-config", "metadata", "name")},
		"unknown Secret":         {rule: "nothing is missing", want: "Secret portcullis/other", breaks: at("Deployment", "supervisorctl", "other", spec, template, spec, "volumes", 1, "secret", "secretName")},
		"account is missing":     {rule: "nothing is missing", want: "ServiceAccount portcullis/other", breaks: at("Deployment", "supervisorctl", "other", spec, template, spec, "serviceAccountName")},
		"settings are missing":   {rule: "nothing is missing", want: "ConfigMap portcullis/portcullis-config", breaks: at("ConfigMap", "portcullis-config", "renamed", "metadata", "name")},
		"Service for nobody":     {rule: "Services serve", want: "0 workloads", breaks: at("Service", "tokenauth", object{"app": "x"}, spec, "selector")},
		"Service to no port":     {rule: "Services serve", want: "port grpc", breaks: at("Service", "tokenauth", "grpc", spec, "ports", 0, "targetPort")},
		"budget for nobody":      {rule: "budgets hold", want: "0 workloads", breaks: at("PodDisruptionBudget", "tokenauth", object{"app": "x"}, spec, "selector", "matchLabels")},
		"budget holds drains up": {rule: "budgets hold", want: "minAvailable", breaks: at("PodDisruptionBudget", "tokenauth", int64(1), spec, "minAvailable")},
		"policy for nobody":      {rule: "policies fit", want: "is for no Pod", breaks: at("NetworkPolicy", "tokenauth", object{"app": "x"}, spec, "podSelector", "matchLabels")},
		"policy of one way":      {rule: "policies fit", want: "bounds Deployment tokenauth in both", breaks: at("NetworkPolicy", "tokenauth", list{"Ingress"}, spec, "policyTypes")},
		"policy opens to none":   {rule: "policies fit", want: "Pods that are not there", breaks: at("NetworkPolicy", "tokenauth", object{"app": "x"}, spec, "ingress", 0, "from", 0, "podSelector", "matchLabels")},
		"policy opens to all":    {rule: "policies fit", want: "every namespace", breaks: at("NetworkPolicy", "tokenauth", object{}, spec, "ingress", 1, "from", 0, "namespaceSelector")},
		"policy opens to world":  {rule: "policies fit", want: "opens to everybody", breaks: at("NetworkPolicy", "tokenauth", nil, spec, "ingress", 0, "from")},
		"out to everywhere":      {rule: "policies fit", want: "out to everywhere", breaks: at("NetworkPolicy", "tokenauth", nil, spec, "egress", 2, "to")},
		"budget of nothing":      {rule: "budgets hold", want: "no Pod go", breaks: at("PodDisruptionBudget", "tokenauth", int64(0), spec, "maxUnavailable")},
		"budget of the ready":    {rule: "budgets hold", want: "tokenauth lets Pods that are not ready go: that is false", breaks: at("PodDisruptionBudget", "tokenauth", nil, spec, "unhealthyPodEvictionPolicy")},
		"no majority is left":    {of: "ha", rule: "budgets hold", want: "nats lets Pods that are not ready go: that is true", breaks: at("PodDisruptionBudget", "nats", "AlwaysAllow", spec, "unhealthyPodEvictionPolicy")},
		"policies of one way":    {rule: "policies fit", want: "bounds Deployment tokenauth in both", breaks: together(at("NetworkPolicy", "tokenauth", list{"Ingress"}, spec, "policyTypes"), at("NetworkPolicy", "lifecycle", list{"Ingress"}, spec, "policyTypes"), at("NetworkPolicy", "lifecycle", object{"app.kubernetes.io/name": "tokenauth"}, spec, "podSelector", "matchLabels"))},
		"policy without a way":   {rule: "policies fit", want: "bounds Deployment tokenauth in both", breaks: together(at("NetworkPolicy", "tokenauth", nil, spec, "policyTypes"), at("NetworkPolicy", "tokenauth", nil, spec, "egress"))},
		"opens to addresses":     {rule: "policies fit", want: "names addresses, 0.0.0.0/0", breaks: at("NetworkPolicy", "tokenauth", object{"ipBlock": object{"cidr": "0.0.0.0/0"}}, spec, "ingress", 0, "from", 0)},
		"out to addresses":       {rule: "policies fit", want: "names addresses, 10.0.0.0/8", breaks: at("NetworkPolicy", "tokenauth", object{"ipBlock": object{"cidr": "10.0.0.0/8"}}, spec, "egress", 2, "to", 0)},
		"opens to a namespace":   {rule: "policies fit", want: "every Pod of a namespace of others", breaks: at("NetworkPolicy", "tokenauth", object{"matchLabels": object{"kubernetes.io/metadata.name": "kube-system"}}, spec, "ingress", 1, "from", 0, "namespaceSelector")},
		"opens to all but some":  {rule: "policies fit", want: "every Pod of a namespace of others", breaks: at("NetworkPolicy", "tokenauth", object{"matchExpressions": list{object{"key": "portcullis.openshell.ai/metrics", "operator": "DoesNotExist"}}}, spec, "ingress", 1, "from", 0, "namespaceSelector")},
		"opens to its namespace": {rule: "policies fit", want: "every Pod of its namespace", breaks: at("NetworkPolicy", "tokenauth", object{}, spec, "ingress", 0, "from", 0, "podSelector")},
		"NATS is gone":           {rule: "policies fit", want: "NetworkPolicy tokenauth names Pods that are not there", breaks: at("StatefulSet", "nats", object{"app": "x"}, spec, template, "metadata", "labels")},
		"lifecycle is gone":      {rule: "policies fit", want: "NetworkPolicy supervisorctl names Pods that are not there", breaks: at("Deployment", "lifecycle", object{"app": "x"}, spec, template, "metadata", "labels")},
		"call is held back":      {rule: "calls get through", want: `Deployment lifecycle calls "tokenauth.portcullis.svc:8443", and no NetworkPolicy lets that out`, breaks: at("NetworkPolicy", "lifecycle", object{"app": "x"}, spec, "egress", 3, "to", 0, "podSelector", "matchLabels")},
		"call by another port":   {rule: "calls get through", want: `Deployment lifecycle calls "supervisorctl.portcullis.svc:8444", and no NetworkPolicy lets that out`, breaks: at("NetworkPolicy", "lifecycle", int64(8443), spec, "egress", 4, "ports", 0, "port")},
		"call is turned away":    {rule: "calls get through", want: `Deployment lifecycle calls "tokenauth.portcullis.svc:8443", and no NetworkPolicy lets that in`, breaks: at("NetworkPolicy", "tokenauth", object{"app": "x"}, spec, "ingress", 0, "from", 0, "podSelector", "matchLabels")},
		"relay is turned away":   {of: "gateway-relay", rule: "calls get through", want: `StatefulSet openshell calls "lifecycle.portcullis.svc:8445", and no NetworkPolicy lets that in to Deployment lifecycle`, breaks: at("NetworkPolicy", "lifecycle", "http", spec, "ingress", 0, "ports", 0, "port")},
		"sidecar is turned away": {of: "gateway-lifecycle", rule: "calls get through", want: `Deployment openshell calls "supervisorctl.portcullis.svc:8444", and no NetworkPolicy lets that in`, breaks: at("NetworkPolicy", "supervisorctl", "relay", spec, "ingress", 0, "from", 1, "podSelector", "matchLabels", "portcullis.openshell.ai/sidecar")},
		"bootstrap turned away":  {rule: "calls get through", want: `Job nats-bootstrap calls "nats.portcullis.svc:4222", and no NetworkPolicy lets that in`, breaks: at("NetworkPolicy", "nats", list{"nswatch", "tokenauth", "lifecycle"}, spec, "ingress", 0, "from", 0, "podSelector", "matchExpressions", 0, "values")},
		"peers are turned away":  {of: "ha", rule: "calls get through", want: `StatefulSet nats calls "nats-2.nats.portcullis.svc:6222", and no NetworkPolicy lets that in`, breaks: at("NetworkPolicy", "nats", "monitor", spec, "ingress", 1, "ports", 0, "port")},
		"peers are held back":    {of: "ha", rule: "calls get through", want: `StatefulSet nats calls "nats-0.nats.portcullis.svc:6222", and no NetworkPolicy lets that out`, breaks: at("NetworkPolicy", "nats", "monitor", spec, "egress", 1, "ports", 0, "port")},
		"names are held back":    {rule: "calls get through", want: "Deployment tokenauth asks for names", breaks: at("NetworkPolicy", "tokenauth", "TCP", spec, "egress", 0, "ports", 0, "protocol")},
		"cluster is held back":   {rule: "calls get through", want: "Deployment tokenauth has a token for the API server, and no NetworkPolicy lets out to port 6443", breaks: at("NetworkPolicy", "tokenauth", int64(443), spec, "egress", 1, "ports", 1, "port")},
		"few audit copies":       {of: "ha", rule: "copies fit", want: "<nil> copies of the audit stream (none is 1), and NATS has 3 servers", breaks: at("ConfigMap", "portcullis-config", "[portcullis]\nlog_level = \"info\"\n", "data", "gateway.toml")},
		"few copies of the list": {of: "ha", rule: "copies fit", want: "[--replicas 1], and NATS has 3 servers", breaks: at("Job", "nats-bootstrap", "1", spec, template, spec, "initContainers", 0, "args", 5)},
		"more copies than there": {of: "ha", rule: "copies fit", want: "3 copies of the audit stream (none is 1), and NATS has 1 servers", breaks: at("StatefulSet", "nats", int64(1), spec, "replicas")},
		"policy of no port":      {rule: "policies fit", want: "port grpc", breaks: at("NetworkPolicy", "tokenauth", "grpc", spec, "ingress", 0, "ports", 0, "port")},
		"out by every port":      {rule: "policies fit", want: "every port out", breaks: at("NetworkPolicy", "tokenauth", nil, spec, "egress", 1, "ports")},
		"role is missing":        {rule: "bindings bind", want: "binds /other", breaks: at("ClusterRoleBinding", "portcullis-tokenauth", "other", "roleRef", "name")},
		"bound to a stranger":    {rule: "bindings bind", want: "portcullis/other, which is not there", breaks: at("ClusterRoleBinding", "portcullis-tokenauth", "other", "subjects", 0, "name")},
		"bound to everybody":     {rule: "bindings bind", want: "for Group", breaks: at("ClusterRoleBinding", "portcullis-tokenauth", "Group", "subjects", 0, "kind")},
		"all verbs":              {rule: "rights are narrow", want: "grants *", breaks: at("ClusterRole", "portcullis-tokenauth", list{"*"}, "rules", 0, "verbs")},
		"paths":                  {rule: "rights are narrow", want: "no resources, [/*]", breaks: at("ClusterRole", "portcullis-tokenauth", list{"/*"}, "rules", 0, "nonResourceURLs")},
		"reads Secrets":          {rule: "rights are narrow", want: "Secrets that it does not name", breaks: at("ClusterRole", "portcullis-tokenauth", list{"secrets"}, "rules", 1, "resources")},
		"reads all Secrets":      {of: "managed", rule: "rights are narrow", want: "Secrets that it does not name", breaks: at("Role", "supervisorctl-sources", nil, "rules", 0, "resourceNames")},
		"runs things in Pods":    {rule: "rights are narrow", want: "pods/exec", breaks: at("ClusterRole", "portcullis-tokenauth", list{"pods/exec"}, "rules", 1, "resources")},
		"empty list":             {rule: "lists are full", want: ".spec.ingress", breaks: at("NetworkPolicy", "tokenauth", list{}, spec, "ingress")},
		"twice":                  {rule: "names are whole", want: "Service portcullis/tokenauth is there twice", breaks: at("Service", "supervisorctl", "tokenauth", "metadata", "name")},
		"other port":             {rule: "settings are read as one", want: "tokenauth.listen_address", breaks: at("Deployment", "tokenauth", int64(9443), container("ports", 1, "containerPort")...)},
		"claims for nothing":     {rule: "settings are read as one", want: "allow_driver_config is false", breaks: at("ClusterRole", "portcullis-lifecycle", list{"pods", "persistentvolumeclaims"}, "rules", 1, "resources")},
		"claims are not read":    {of: "driver-config", rule: "settings are read as one", want: "allow_driver_config is true", breaks: at("ClusterRole", "portcullis-lifecycle", list{}, "rules")},
		"file of no mount":       {rule: "settings are read as one", want: "portcullis.mesh.ca_file", breaks: at("Deployment", "tokenauth", "/elsewhere", container("volumeMounts", 1, "mountPath")...)},
		"calls no Service":       {rule: "settings are read as one", want: `calls "tokenauth.portcullis.svc:8443"`, breaks: at("Service", "tokenauth", int64(9443), spec, "ports", 0, "port")},
		"NATS is elsewhere":      {rule: "settings are read as one", want: `calls "nats.portcullis.svc:4222"`, breaks: at("Service", "nats", "broker", "metadata", "name")},
		"other Lease":            {rule: "settings are read as one", want: "Lease portcullis-nswatch-openshell", breaks: at("Role", "nswatch", list{"portcullis-nswatch-other"}, "rules", 1, "resourceNames")},
		"another label":          {rule: "writes are guarded", want: `"openshell.ai/sandboxes=yes"`, breaks: at("ValidatingAdmissionPolicy", "portcullis-daemon-writes", "'yes'", spec, "variables", 1, "expression")},
		"no guard":               {rule: "writes are guarded", want: `with ""`, breaks: at("ValidatingAdmissionPolicyBinding", "portcullis-daemon-writes", "other", spec, "policyName")},
		"guard that only tells":  {rule: "writes are guarded", want: `with ""`, breaks: at("ValidatingAdmissionPolicyBinding", "portcullis-daemon-writes", list{"Audit"}, spec, "validationActions")},
		"another gateway":        {of: "managed", rule: "writes are guarded", want: `namespaces of gateway "other"`, breaks: at("ValidatingAdmissionPolicy", "portcullis-daemon-writes", "'other'", spec, "variables", 0, "expression")},
		"no guard at all":        {of: "managed", rule: "writes are guarded", want: "pods be written in every namespace", breaks: at("ValidatingAdmissionPolicyBinding", "portcullis-daemon-writes", "other", spec, "policyName")},
		"rights everywhere":      {of: "operator-file", rule: "writes are guarded", want: "secrets be written in every namespace", breaks: at("ClusterRole", "portcullis-supervisorctl", list{object{"apiGroups": list{""}, "resources": list{"secrets"}, "verbs": list{"create"}}}, "rules")},
		"guard that lets go":     {rule: "writes are guarded", want: `with ""`, breaks: at("ValidatingAdmissionPolicy", "portcullis-daemon-writes", "Ignore", spec, "failurePolicy")},
		"right beside the guard": {rule: "writes are guarded", want: "persistentvolumeclaims be written in every namespace", breaks: at("ClusterRole", "portcullis-supervisorctl", list{object{"apiGroups": list{""}, "resources": list{"persistentvolumeclaims"}, "verbs": list{"create"}}}, "rules")},
		"guard of creates alone": {rule: "writes are guarded", want: "sandboxes be written in every namespace", breaks: at("ValidatingAdmissionPolicy", "portcullis-daemon-writes", list{"CREATE"}, spec, "matchConstraints", "resourceRules", 2, "operations")},
		"another account":        {rule: "writes are guarded", want: "ServiceAccount other of namespace portcullis", breaks: at("Deployment", "supervisorctl", "other", spec, template, spec, "serviceAccountName")},
		"ends of settings":       {rule: "Pods wait", want: "container nswatch of Deployment nswatch does not answer", breaks: at("Deployment", "nswatch", list{"--config", "/etc/portcullis/config/gateway.toml"}, container("args")...)},
		"waits elsewhere":        {rule: "Pods wait", want: "does not answer its probes", breaks: at("Deployment", "nswatch", list{"--config", "f", "--waiting-address", ":9465"}, container("args")...)},
		"needs its Secret":       {rule: "Pods wait", want: "without Secret portcullis/portcullis-supervisorctl-mesh-tls", breaks: at("Deployment", "supervisorctl", nil, spec, template, spec, "volumes", 1, "secret", "optional")},
		"policies are trusted":   {rule: "nothing is vouched for", want: "without a look", breaks: at("ConfigMap", "portcullis-config", "[openshell.drivers.kubernetes.sandbox_runtime]\nnetwork_policy_enforced = true", "data", "gateway.toml")},
		"a Job hangs":            {rule: "Jobs end", want: "Job nats-bootstrap may hang", breaks: at("Job", "nats-bootstrap", nil, spec, "activeDeadlineSeconds")},
		"a Job stays":            {rule: "Jobs end", want: "Job nats-bootstrap is there long", breaks: at("Job", "nats-bootstrap", int64(3600), spec, "ttlSecondsAfterFinished")},
		"a Job's log goes":       {rule: "Jobs end", want: "Job nats-bootstrap takes its log along", breaks: at("Job", "nats-bootstrap", "OnFailure", spec, template, spec, "restartPolicy")},
		"a CronJob's log goes":   {of: "certs-job", rule: "Jobs end", want: "CronJob portcullis-provision takes its log along", breaks: at("CronJob", "portcullis-provision", "OnFailure", spec, "jobTemplate", spec, template, spec, "restartPolicy")},
		"a CronJob hangs":        {of: "certs-job", rule: "Jobs end", want: "CronJob portcullis-provision may hang", breaks: at("CronJob", "portcullis-provision", nil, spec, "jobTemplate", spec, "activeDeadlineSeconds")},
		"sources differ":         {of: "managed", rule: "settings are read as one", want: "supervisorctl-sources", breaks: at("Role", "supervisorctl-sources", list{"openshell-pull"}, "rules", 0, "resourceNames")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := test.of
			if of == "" {
				of = "operator-label"
			}
			var objects []*unstructured.Unstructured
			for _, object := range rendered(t)[of].Objects {
				objects = append(objects, object.DeepCopy())
			}
			if !test.breaks(objects) {
				t.Fatal("there is nothing to break")
			}
			found := rules[test.rule](survey(t, objects))
			if !strings.Contains(strings.Join(found, "\n"), test.want) {
				t.Errorf("%s found %q, and nothing of %q", test.rule, []string(found), test.want)
			}
		})
	}
}
