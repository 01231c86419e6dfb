package supervisor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
)

// set is a sandbox with its companions as a State has them.
type set struct {
	box                  *unstructured.Unstructured
	supervisor, workload *corev1.Pod
	service              *corev1.Service
	// own and theirs are the Secrets that the two Pods mount: the workload's and the supervisor's.
	own, theirs *corev1.Secret
	dir         string
}

// setOf is the set of a sandbox id. The error says what is missing, and the set has the rest.
func setOf(state State, id string) (*set, error) {
	s := &set{}
	for key, object := range state {
		if strings.HasPrefix(key, Sandboxes) && object.GetLabels()["openshell.ai/sandbox-id"] == id {
			s.box = object
		}
	}
	if s.box == nil {
		return nil, errors.New("there is no Sandbox")
	}
	find := func(key string, read func(*unstructured.Unstructured) error) error {
		object := state[key]
		if object == nil {
			return fmt.Errorf("there is no %s", key)
		}
		return read(object)
	}
	err := errors.Join(
		find(Pods+"/"+s.box.GetName(), into(&s.workload)),
		find(Pods+"/os-supervisor-"+id, into(&s.supervisor)),
		find(Services+"/os-boundary-"+id, into(&s.service)),
	)
	if s.workload != nil {
		err = errors.Join(err, find(Secrets+"/"+mounted(s.workload, "/.openshell/bootstrap-input"), into(&s.own)))
	}
	if s.supervisor != nil {
		err = errors.Join(err, find(Secrets+"/"+mounted(s.supervisor, "/.openshell/supervisor"), into(&s.theirs)))
	}
	return s, err
}

func into[T any](at **T) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) (err error) {
		*at, err = as[T](u)
		return err
	}
}

// mounted is the Secret that a Pod mounts at a path.
func mounted(pod *corev1.Pod, path string) string {
	for _, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		for _, m := range c.VolumeMounts {
			for _, v := range pod.Spec.Volumes {
				if m.MountPath == path && v.Name == m.Name && v.Secret != nil {
					return v.Secret.SecretName
				}
			}
		}
	}
	return ""
}

func (s *set) wipe() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// staged are what the supervisor's Secret has where the settings ask for it (contract 7.7).
var staged = []string{"client-ca.crt", "client-tls.crt", "client-tls.key", "upstream-proxy-ca.pem"}

// check reads both Secrets as the stock programs do and says what of them is not about these objects, or not of one making (contract
// 7.7, 7.8, 13.3, 13.4).
func (s *set) check(state State) error {
	if err := errors.Join(owner(s.own, s.workload), owner(s.theirs, s.supervisor)); err != nil {
		return err
	}
	if keys := slices.Sorted(maps.Keys(s.own.Data)); !slices.Equal(keys, []string{"boundary.json", "tls.crt", "tls.key"}) {
		return fmt.Errorf("the sandbox Secret has %v", keys)
	}
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(s.theirs.Data)), func(key string) bool { return slices.Contains(staged, key) })
	if !slices.Equal(keys, []string{"auth.json", "proxy-ca.crt", "proxy-ca.key", "runtime-descriptor.json"}) {
		return fmt.Errorf("the supervisor Secret has %v", keys)
	}
	b, d, a, err := s.read()
	if err != nil {
		return err
	}
	return errors.Join(s.claims(state, d), s.paired(b, d, a), s.leaf(d))
}

func owner(secret *corev1.Secret, pod *corev1.Pod) error {
	for _, o := range secret.OwnerReferences {
		if o.Kind == "Pod" && o.UID == pod.UID && o.Name == pod.Name {
			return nil
		}
	}
	return fmt.Errorf("the Secret %s is owned by %v, and its Pod has uid %s", secret.Name, secret.OwnerReferences, pod.UID)
}

// read puts the files where the readers of package bootstrap find them.
func (s *set) read() (b bootstrap.Boundary, d bootstrap.Descriptor, a bootstrap.Auth, err error) {
	if s.dir, err = os.MkdirTemp("", "set"); err != nil {
		return b, d, a, err
	}
	at := func(name string) string { return filepath.Join(s.dir, name) }
	for name, data := range map[string][]byte{
		"boundary.json": s.own.Data["boundary.json"], "auth.json": s.theirs.Data["auth.json"],
		"runtime-descriptor.json": s.theirs.Data["runtime-descriptor.json"],
	} {
		if err = os.WriteFile(at(name), data, 0o600); err != nil {
			return b, d, a, err
		}
	}
	var boundary, descriptor, auth error
	b, boundary = bootstrap.ReadBoundary(at("boundary.json"))
	d, descriptor = bootstrap.ReadDescriptor(at("runtime-descriptor.json"))
	a, auth = bootstrap.ReadAuth(at("auth.json"))
	return b, d, a, errors.Join(boundary, descriptor, auth)
}

// claims compares with the live objects. What only an administrator's list would tell, the namespace's uid, is the reader's to check.
func (s *set) claims(state State, d bootstrap.Descriptor) error {
	fence := state[Policies+"/openshell-sandbox-workloads"]
	for name, want := range map[string]string{
		bootstrap.ClaimSandboxUID: string(s.box.GetUID()), bootstrap.ClaimWorkloadPodUID: string(s.workload.UID),
		bootstrap.ClaimSupervisorUID: string(s.supervisor.UID), bootstrap.ClaimPolicyUID: string(fence.GetUID()),
		bootstrap.ClaimPolicyVersion: fence.GetResourceVersion(),
	} {
		if d.ResourceClaims[name] != want {
			return fmt.Errorf("claim %s is %q, and it is %q", name, d.ResourceClaims[name], want)
		}
	}
	ip, err := netip.ParseAddr(s.service.Spec.ClusterIP)
	if err != nil {
		return fmt.Errorf("the address of the Service: %w", err)
	}
	if want := netip.AddrPortFrom(ip, Port).String(); len(d.Transport.Addresses) != 1 || d.Transport.Addresses[0] != want {
		return fmt.Errorf("the supervisor dials %v, and the Service is at %s", d.Transport.Addresses, want)
	}
	if want := fmt.Sprintf("%s.%s.svc:%d", s.service.Name, s.service.Namespace, Port); d.Transport.Authority != want {
		return fmt.Errorf("the authority is %q, want %q", d.Transport.Authority, want)
	}
	return nil
}

// paired says where the two sides disagree with each other or with the record.
func (s *set) paired(b bootstrap.Boundary, d bootstrap.Descriptor, a bootstrap.Auth) error {
	recorded := s.box.GetAnnotations()
	session, generation := recorded["openshell.ai/sandbox-runtime-bootstrap-session"], recorded["openshell.ai/sandbox-runtime-generation"]
	switch {
	case b.SessionID != session || d.SessionID != session || a.SessionID != session:
		return fmt.Errorf("sessions %s, %s, %s, and the record has %s", b.SessionID, d.SessionID, a.SessionID, session)
	case b.Generation != generation || d.Generation != generation || a.RuntimeGeneration != generation:
		return fmt.Errorf("generations %s, %s, %s, and the record has %s", b.Generation, d.Generation, a.RuntimeGeneration, generation)
	case b.AuthEpoch != a.AuthEpoch || b.SessionRotation != a.SessionRotation:
		return fmt.Errorf("epochs %d and %d, rotations %d and %d", b.AuthEpoch, a.AuthEpoch, b.SessionRotation, a.SessionRotation)
	case !maps.Equal(b.ResourceClaims, d.ResourceClaims), !reflect.DeepEqual(b.OuterFence, d.OuterFence),
		!reflect.DeepEqual(b.WorkloadIdentity, d.WorkloadIdentity):
		return fmt.Errorf("the two sides differ: %+v and %+v", b, d)
	case b.BoundaryID != s.box.GetLabels()["openshell.ai/sandbox-id"] || d.BoundaryID != b.BoundaryID:
		return fmt.Errorf("boundaries %s and %s", b.BoundaryID, d.BoundaryID)
	case b.WorkloadIdentity.UID != User || b.WorkloadIdentity.GID != Group || b.WorkloadIdentity.ResourceDigest != "sandbox:"+string(s.box.GetUID()):
		return fmt.Errorf("the identity is %+v", b.WorkloadIdentity)
	case b.ChildEnv["GREETING"] != "hello" || len(b.ChildEnv) != 1:
		return fmt.Errorf("the child's environment is %v", b.ChildEnv)
	}
	return nil
}

// leaf verifies the workload's certificate as the supervisor would.
func (s *set) leaf(d bootstrap.Descriptor) error {
	pair, err := tls.X509KeyPair(s.own.Data["tls.crt"], s.own.Data["tls.key"])
	if err != nil {
		return fmt.Errorf("the leaf: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(d.TLS.TrustAnchorPEM))
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: d.TLS.ServerName, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return fmt.Errorf("the workload's certificate is not what its supervisor trusts, so the Secrets are of two attempts: %w", err)
	}
	_, err = tls.X509KeyPair(s.theirs.Data["proxy-ca.crt"], s.theirs.Data["proxy-ca.key"])
	return err
}
