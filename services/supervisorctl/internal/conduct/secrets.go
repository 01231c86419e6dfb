package conduct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/admitted"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/fenceevidence"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// makeSecrets makes all Secrets of the run for the Pods, the fence and the Service that were seen.
func (r *round) makeSecrets(ctx context.Context, step plan.Step) (plan.Step, error) {
	if r.goal.Bundle == nil {
		return refusal(plan.Broke, "the credentials of this run went with the call that had them"), nil
	}
	r.attempt.Afresh, r.attempt.SecretsGone = true, false
	facts, err := r.measured(ctx)
	if err != nil {
		return plan.Step{}, err
	}
	defer facts.ClientKey.Wipe()
	made, err := material.Make(facts, r.random)
	if err != nil {
		source := ""
		if errors.Is(err, material.ErrClient) {
			source = fmt.Sprintf("; the client's files come from the Secret %s/%s that the setting client_tls_secret_name names", r.settings.Namespace, r.settings.ClientTLSSecretName)
		}
		refused := refusal(CompanionRefused, "the bootstrap material cannot be made: %v%s", err, source)
		refused.Undo = true
		return refused, nil
	}
	defer made.Wipe()
	wanted, err := r.rendered(ctx, made)
	if err != nil {
		return plan.Step{}, err
	}
	defer wipe(wanted)
	if err := r.deleteMade(ctx); err != nil { // of an earlier make
		return plan.Step{}, err
	}
	for _, s := range wanted {
		err := r.place(ctx, s, step.Afresh)
		if errors.Is(err, cluster.ErrExists) {
			return r.inTheWay(s), nil
		}
		if err != nil {
			return plan.Step{}, err
		}
	}
	evidence, err := fenceevidence.Encode(facts.Evidence(made.Fence))
	if err != nil {
		return plan.Step{}, err
	}
	r.attempt.MadeFor, r.attempt.Secrets, r.attempt.Evidence = step.For, secretsRecord(r.made), evidence
	return plan.Step{}, nil
}

// measured is what the material is made from.
func (r *round) measured(ctx context.Context) (*material.Facts, error) {
	s, box := &r.seen, r.sandbox()
	namespace, err := r.namespaceUID(ctx)
	if err != nil {
		return nil, err
	}
	address, err := companion.ClusterIP(s.service.value)
	if err != nil {
		return nil, err
	}
	proxy, err := r.proxyCA()
	if err != nil {
		return nil, err
	}
	facts := &material.Facts{
		SandboxID: box.ID, Namespace: box.Namespace, NamespaceUID: namespace, SandboxUID: string(box.UID),
		WorkloadPodUID: string(s.workload.value.UID), SupervisorPodUID: string(s.supervisor.value.UID),
		FenceUID: string(s.fence.value.UID), FenceResourceVersion: s.fence.value.ResourceVersion,
		ClusterIP: address.String(), BoundaryPort: r.settings.SandboxRuntime.BoundaryPort,
		WorkloadUID: box.User, WorkloadGID: box.Group, ResourceDigest: material.ResourceDigest(string(box.UID)),
		ChildEnv: childEnvironment(&s.box.value.Template.Spec), HostGatewayIP: r.settings.HostGatewayIP,
		Bundle: r.goal.Bundle, UpstreamProxyCA: proxy,
	}
	return facts, r.addClient(ctx, facts)
}

// proxyCA is the proxy's CA bundle. That there is no such file, and what it holds, is for the operator to mend; a file that cannot be read,
// as while it is replaced, says nothing of either.
func (r *round) proxyCA() ([]byte, error) {
	bundle, err := r.settings.ReadProxyCABundle()
	var cause syscall.Errno
	switch {
	case err == nil:
		return bundle, nil
	case errors.As(err, &cause) && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the proxy's CA bundle: %w", err)
	}
	return nil, errRender{fmt.Errorf("read the proxy's CA bundle: %w", err)}
}

// addClient adds what the supervisor verifies its gateway by, and shows it, where that is staged in its Secret (contract 9.5).
func (r *round) addClient(ctx context.Context, facts *material.Facts) error {
	files := r.renderer.SupervisorFiles()
	wants := func(name string) bool { return slices.Contains(files, name) }
	if !wants(material.FileClientCA) {
		return nil
	}
	source, err := r.source(ctx, "client_tls_secret_name", r.settings.ClientTLSSecretName)
	if err != nil {
		return err
	}
	defer clear(source.Data[corev1.TLSPrivateKeyKey])
	facts.ClientCA = source.Data["ca.crt"]
	if err := r.complete(source, wants); err != nil {
		return err
	}
	if wants(material.FileClientKey) {
		facts.ClientCertificate, facts.ClientKey = source.Data[corev1.TLSCertKey], secret.New(source.Data[corev1.TLSPrivateKeyKey])
	}
	return nil
}

// complete says which file of the client's Secret is missing. An authority that is none is told of as such, by whoever reads it.
func (r *round) complete(source *corev1.Secret, wants func(string) bool) error {
	authority := source.Data["ca.crt"]
	if len(authority) > 0 && !bytes.Contains(authority, []byte("BEGIN CERTIFICATE")) {
		return nil
	}
	for _, file := range [...]struct{ source, staged string }{
		{"ca.crt", material.FileClientCA}, {corev1.TLSCertKey, material.FileClientCertificate}, {corev1.TLSPrivateKeyKey, material.FileClientKey},
	} {
		if wants(file.staged) && len(source.Data[file.source]) == 0 {
			return errRender{fmt.Errorf("the setting client_tls_secret_name: Secret %s/%s has no %s", r.settings.Namespace, r.settings.ClientTLSSecretName, file.source)}
		}
	}
	return nil
}

// source reads a Secret that a setting names. That there is none is for the operator to mend: trying again does not help.
func (r *round) source(ctx context.Context, setting, name string) (*corev1.Secret, error) {
	source, err := r.cluster.SourceSecret(ctx, r.settings.Namespace, name)
	if err == nil {
		return source, nil
	}
	err = fmt.Errorf("the setting %s: %w", setting, err)
	if errors.Is(err, cluster.ErrRefused) {
		return nil, fmt.Errorf("%w; grant get on it by its name", err)
	}
	if errors.Is(err, cluster.ErrAbsent) {
		return nil, errRender{err}
	}
	return nil, err
}

// childEnvironment is what the workload's processes get: the agent's environment without what is ours (contract 7.5).
func childEnvironment(template *corev1.PodSpec) map[string]string {
	env := map[string]string{}
	for i := range template.Containers {
		if template.Containers[i].Name != admitted.AgentContainer {
			continue
		}
		for _, v := range template.Containers[i].Env {
			if !strings.HasPrefix(v.Name, "OPENSHELL_") && v.ValueFrom == nil {
				env[v.Name] = v.Value
			}
		}
	}
	return env
}

// rendered are the Secrets in the order in which they are made: copies of pull Secrets, the sandbox's, the supervisor's.
func (r *round) rendered(ctx context.Context, made *material.Material) ([]*corev1.Secret, error) {
	box := r.sandbox()
	workload := companion.PodRef{Name: r.seen.workload.value.Name, UID: r.seen.workload.value.UID}
	supervisor := companion.PodRef{Name: r.seen.supervisor.value.Name, UID: r.seen.supervisor.value.UID}
	var all []*corev1.Secret
	fail := func(err error) ([]*corev1.Secret, error) {
		wipe(all)
		return nil, err
	}
	for i, name := range r.renderer.PullSecretSources() {
		source, err := r.source(ctx, "image_pull_secrets", name)
		if err != nil {
			return fail(err)
		}
		pull, err := r.renderer.PullSecret(box, i, source, workload, supervisor)
		if err != nil {
			wipe([]*corev1.Secret{source})
			return fail(errRender{err})
		}
		all = append(all, pull)
	}
	files := exposed(made.Sandbox)
	own, err := r.renderer.SandboxSecret(box, workload, files)
	if err != nil {
		clearAll(files)
		return fail(errRender{err})
	}
	all = append(all, own)
	files = exposed(made.Supervisor)
	theirs, err := r.renderer.SupervisorSecret(box, supervisor, files)
	if err != nil {
		clearAll(files)
		return fail(errRender{err})
	}
	return append(all, theirs), nil
}

// exposed is what the API server is told; the bytes are copies, and wiped with the Secrets.
func exposed(files map[string]secret.Value) map[string][]byte {
	out := make(map[string][]byte, len(files))
	for name, value := range files {
		out[name] = value.Expose()
	}
	return out
}

func wipe(secrets []*corev1.Secret) {
	for _, s := range secrets {
		clearAll(s.Data)
	}
}

func clearAll(files map[string][]byte) {
	for _, content := range files {
		clear(content)
	}
}
