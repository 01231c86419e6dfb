package companion

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// SandboxSecret is the bootstrap Secret of the workload Pod (contract 7.7). It shares the bytes of files, so that whoever
// made them can wipe both. Every file must be there, and no other.
func (r *Renderer) SandboxSecret(s Sandbox, workload PodRef, files map[string][]byte) (*corev1.Secret, error) {
	err := errors.Join(s.check(r.scheme), checkPod("workload Pod", workload, ""),
		checkFiles(files, []string{material.FileBoundary, material.FileCertificate, material.FileKey}))
	if err != nil {
		return nil, fmt.Errorf("rendering the sandbox bootstrap Secret: %w", err)
	}
	name := workspace.SandboxSecret(s.ID, s.Generation)
	return bootstrapSecret(&s, name, workspace.ComponentSandboxBootstrap, files, workload), nil
}

// SupervisorFiles are the files that the settings ask for in the supervisor's bootstrap Secret, sorted.
func (r *Renderer) SupervisorFiles() []string {
	files := []string{material.FileDescriptor, material.FileAuth, material.FileProxyCA, material.FileProxyCAKey}
	if r.settings.ProxyCABundle != "" {
		files = append(files, material.FileUpstreamProxyCA)
	}
	if r.stagesClient() {
		files = append(files, material.FileClientCA)
		if r.options.ClientKey {
			files = append(files, material.FileClientCertificate, material.FileClientKey)
		}
	}
	slices.Sort(files)
	return files
}

// SupervisorSecret is the same for the supervisor Pod, with the files of SupervisorFiles.
func (r *Renderer) SupervisorSecret(s Sandbox, supervisor PodRef, files map[string][]byte) (*corev1.Secret, error) {
	err := errors.Join(s.check(r.scheme), checkPod("supervisor Pod", supervisor, workspace.SupervisorPod(s.ID)),
		checkFiles(files, r.SupervisorFiles()))
	if err != nil {
		return nil, fmt.Errorf("rendering the supervisor bootstrap Secret: %w", err)
	}
	name := workspace.SupervisorSecret(s.ID, s.Generation)
	return bootstrapSecret(&s, name, workspace.ComponentSupervisorBootstrap, files, supervisor), nil
}

// PullSecretSources are the Secrets to copy for a run, in order: in managed mode those of the settings, to be read in the
// settings' own namespace; none in other modes, where they are used under their own names (contract 9.5).
func (r *Renderer) PullSecretSources() []string {
	if !r.managed() {
		return nil
	}
	return slices.Clone(r.settings.ImagePullSecrets)
}

// PullSecret is the copy of the source with the given index in PullSecretSources, owned by both Pods (contract 7.7, 9.5). It
// shares the bytes of the source. Only what a kubelet pulls images with is copied: a setting that names another kind of
// Secret must not carry it into the namespace of a workspace.
func (r *Renderer) PullSecret(s Sandbox, index int, source *corev1.Secret, workload, supervisor PodRef) (*corev1.Secret, error) {
	err := errors.Join(s.check(r.scheme), checkPod("workload Pod", workload, ""),
		checkPod("supervisor Pod", supervisor, workspace.SupervisorPod(s.ID)), r.checkSource(index, source))
	if err != nil {
		return nil, fmt.Errorf("rendering the copy of pull Secret %d: %w", index, err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: workspace.PullSecret(s.ID, s.Generation, index),
			Labels: s.labels(workspace.ComponentImagePull), OwnerReferences: ownedByPods(workload, supervisor),
		},
		Immutable: new(true), Type: source.Type, Data: maps.Clone(source.Data),
	}, nil
}

func (r *Renderer) checkSource(index int, source *corev1.Secret) error {
	sources := r.PullSecretSources()
	if index < 0 || index >= len(sources) {
		return fmt.Errorf("image_pull_secrets has %d Secrets to copy, and none with index %d", len(sources), index)
	}
	if source == nil {
		return fmt.Errorf("image_pull_secrets: the source %q is missing", sources[index])
	}
	if source.Name != sources[index] || source.Namespace != r.settings.Namespace {
		return fmt.Errorf("image_pull_secrets: the source is %q in namespace %q, and must be %q in namespace %q",
			source.Name, source.Namespace, sources[index], r.settings.Namespace)
	}
	keys := map[corev1.SecretType]string{
		corev1.SecretTypeDockerConfigJson: corev1.DockerConfigJsonKey, corev1.SecretTypeDockercfg: corev1.DockerConfigKey,
	}
	key, known := keys[source.Type]
	if !known {
		return fmt.Errorf("image_pull_secrets: Secret %q has type %.80q, and must be %s or %s", source.Name, source.Type,
			corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
	}
	if len(source.Data[key]) == 0 {
		return fmt.Errorf("image_pull_secrets: Secret %q has no %s", source.Name, key)
	}
	return nil
}

// pullNames are the names under which both Pods of a run refer to pull Secrets, in order: those of the copies in managed mode, and those of
// the settings elsewhere.
func (r *Renderer) pullNames(s *Sandbox) []string {
	names := slices.Clone(r.settings.ImagePullSecrets)
	if r.managed() {
		for i := range names {
			names[i] = workspace.PullSecret(s.ID, s.Generation, i)
		}
	}
	return names
}

func (r *Renderer) pullReferences(s *Sandbox) []corev1.LocalObjectReference {
	var references []corev1.LocalObjectReference
	for _, name := range r.pullNames(s) {
		references = append(references, corev1.LocalObjectReference{Name: name})
	}
	return references
}

func bootstrapSecret(s *Sandbox, name, component string, files map[string][]byte, owner PodRef) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name, Labels: s.labels(component), OwnerReferences: ownedByPods(owner),
		},
		Immutable: new(true), Type: corev1.SecretTypeOpaque, Data: maps.Clone(files),
	}
}

// checkFiles says which file is missing, empty or too many. The API server counts names and contents against its limit.
func checkFiles(files map[string][]byte, wanted []string) error {
	size := 0
	for _, name := range wanted {
		if len(files[name]) == 0 {
			return fmt.Errorf("file %s is missing or empty", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !slices.Contains(wanted, name) {
			return fmt.Errorf("file %.80q does not belong there", name)
		}
		size += len(files[name])
	}
	if size > corev1.MaxSecretSize {
		return fmt.Errorf("the files have %d bytes, and a Secret can hold %d", size, corev1.MaxSecretSize)
	}
	return nil
}

// checkPod wants a name that a Pod can have; the given one where it is known beforehand.
func checkPod(what string, pod PodRef, name string) error {
	switch {
	case name != "" && pod.Name != name:
		return fmt.Errorf("%s: its name is %.80q, and must be %q", what, pod.Name, name)
	case pod.Name == "" || !printable(pod.Name) || strings.ContainsAny(pod.Name, " /"):
		return fmt.Errorf("%s: its name is missing or none that a Pod can have", what)
	}
	if err := checkUID(pod.UID); err != nil {
		return fmt.Errorf("%s: its uid %w", what, err)
	}
	return nil
}
