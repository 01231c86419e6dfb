package provision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objects are Secrets or ConfigMaps of one namespace.
type objects[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
}

// Secrets are those of the mesh's namespace.
type Secrets = objects[*corev1.Secret]

// ConfigMaps are those of the mesh's namespace.
type ConfigMaps = objects[*corev1.ConfigMap]

// Certificates say who makes certificates.
type Certificates int

const (
	_ Certificates = iota
	// Make makes them, and the authorities.
	Make
	// Expect leaves them to somebody else, such as cert-manager. In operator mode the Secret of the NATS servers must be there: its
	// ca.crt is what NATS' clients are given.
	Expect
)

// Options say for which mesh.
type Options struct {
	// Namespace is the mesh's, which the names of the NATS servers have in them. GatewayID is that of the settings.
	Namespace, GatewayID string
	// Allowlist says that NATS and nswatch run: operator mode.
	Allowlist bool
	// Certificates says who makes them.
	Certificates Certificates
	// GatewayReader asks for the identity of a gateway that reads the allowlist itself. Without it the servers know a key of the
	// name that is in nobody's hands, or the one that they have known.
	GatewayReader bool
	// Renew is for a run that comes again and again: it looks at certificates alone, makes those anew that end, and makes nothing that is
	// not there. So it needs no right to create, and none to read a seed or a key that signs the allowlist.
	Renew bool
	// Now is the time. Report is told of each object, as "made", "kept" or "renewed".
	Now    func() time.Time
	Report func(what, object string)
}

// The Secrets of the authorities and of the servers.
const (
	meshAuthority = "portcullis-mesh-ca"
	natsAuthority = "portcullis-nats-ca"
	natsServers   = "portcullis-nats-tls"
)

// meshMembers have a certificate in the mesh. nswatch has none: nobody calls it, and it calls nobody.
var meshMembers = [...]string{"tokenauth", "supervisorctl", "lifecycle", "relay"}

// maker is one run.
type maker struct {
	Options
	secrets Secrets
	configs ConfigMaps
}

// Run makes what is missing and renews what ends. After an error what was made stays, and it may be run again.
func Run(ctx context.Context, options Options, secrets Secrets, configs ConfigMaps) error {
	if options.Namespace == "" || options.GatewayID == "" || options.Certificates != Make && options.Certificates != Expect {
		return errors.New("provision: namespace, gateway id and who makes the certificates must be given")
	}
	if options.Renew && options.Certificates != Make {
		return errors.New("provision: somebody else makes the certificates, and nothing else is ever renewed")
	}
	m := &maker{Options: options, secrets: secrets, configs: configs}
	if m.Certificates == Make {
		if err := m.mesh(ctx); err != nil {
			return err
		}
	}
	if !m.Renew {
		if err := m.audit(ctx); err != nil {
			return err
		}
	}
	if !m.Allowlist {
		return nil
	}
	servers, err := m.nats(ctx)
	if m.Renew {
		return err
	}
	if err == nil {
		err = m.identities(ctx, servers)
	}
	return errors.Join(err, m.signing(ctx))
}

// mesh makes the certificates of the mesh (docs of shared/meshrpc: one URI name each).
func (m *maker) mesh(ctx context.Context) error {
	authority, err := m.authority(ctx, meshAuthority, "Portcullis mesh")
	if err != nil {
		return err
	}
	for _, member := range meshMembers {
		if err := m.certificate(ctx, authority, "portcullis-"+member+"-mesh-tls", names{uri: "spiffe://portcullis/" + member}); err != nil {
			return err
		}
	}
	return nil
}

// nats makes the certificate of the NATS servers, and returns the authority that their clients must know.
func (m *maker) nats(ctx context.Context) ([]byte, error) {
	if m.Certificates == Expect {
		have, err := m.secrets.Get(ctx, natsServers, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("the certificate of the NATS servers, which somebody else makes, is not there yet: %w", err)
		}
		if len(have.Data[keyCA]) == 0 {
			return nil, fmt.Errorf("Secret %s has no %s, and clients of NATS need it", natsServers, keyCA) //nolint:staticcheck // a Kubernetes kind
		}
		return have.Data[keyCA], nil
	}
	authority, err := m.authority(ctx, natsAuthority, "Portcullis NATS")
	if err != nil {
		return nil, err
	}
	return authority.trusted, m.certificate(ctx, authority, natsServers, names{dns: natsNames(m.Namespace)})
}

// natsNames are what the servers are called: all of them by the Service, each by its place, and by itself.
func natsNames(namespace string) []string {
	service := "nats." + namespace + ".svc"
	return []string{
		"localhost", "nats", service, service + ".cluster.local",
		"*.nats", "*." + service, "*." + service + ".cluster.local",
	}
}

// authority reads an authority, or makes it.
func (m *maker) authority(ctx context.Context, name, called string) (*authority, error) {
	content, err := m.secret(ctx, name, corev1.SecretTypeTLS, func(have map[string][]byte) (map[string][]byte, error) {
		if have != nil {
			return have, nil
		}
		return newAuthority(called, m.Now())
	})
	if err != nil {
		return nil, err
	}
	a, err := readAuthority(content, m.Now())
	if err != nil {
		return nil, fmt.Errorf("authority in Secret %s: %w", name, err)
	}
	return a, nil
}

// certificate makes a certificate, or makes it anew.
func (m *maker) certificate(ctx context.Context, a *authority, name string, n names) error {
	_, err := m.secret(ctx, name, corev1.SecretTypeTLS, func(have map[string][]byte) (map[string][]byte, error) {
		if a.good(have, n, m.Now()) {
			return have, nil
		}
		return a.issue(n, m.Now())
	})
	return err
}

// The label that says whose something is: what does not have it is never changed.
const (
	labelMaker = "app.kubernetes.io/managed-by"
	labelOurs  = "nswatch-secrets"
)

func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/part-of": "portcullis", labelMaker: labelOurs}
}

func ours(object metav1.Object) bool { return object.GetLabels()[labelMaker] == labelOurs }

// secret brings one Secret to what want says of what there is, nil for nothing, and returns its content.
func (m *maker) secret(ctx context.Context, name string, kind corev1.SecretType, want func(map[string][]byte) (map[string][]byte, error)) (map[string][]byte, error) {
	fail := func(err error) (map[string][]byte, error) { return nil, fmt.Errorf("Secret %s: %w", name, err) } //nolint:staticcheck // a Kubernetes kind
	have, err := m.secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && m.Renew {
		return fail(errors.New("it is not there, and a renewal makes nothing: nswatch secrets without --renew does, which the Job portcullis-provision runs when the overlay is applied"))
	}
	if apierrors.IsNotFound(err) {
		content, err := want(nil)
		if err != nil {
			return fail(err)
		}
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels()}, Type: kind, Data: content}
		if _, err := m.secrets.Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return fail(err)
		}
		m.Report("made", "Secret "+name)
		return content, nil
	}
	if err != nil {
		return fail(err)
	}
	content, err := want(have.Data)
	switch {
	case err != nil:
		return fail(err)
	case same(have.Data, content):
		m.Report("kept", "Secret "+name)
		return content, nil
	case !ours(have):
		return fail(errors.New("it was made by somebody else and does not serve: delete it to have it made, or leave certificates to whoever makes them (--certificates expect)"))
	}
	have.Data = content
	if _, err := m.secrets.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		return fail(err)
	}
	m.Report("renewed", "Secret "+name)
	return content, nil
}

func same(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for key := range a {
		if !bytes.Equal(a[key], b[key]) {
			return false
		}
	}
	return true
}
