package leadership

import (
	"fmt"
	"os"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// MountedNamespace is where the kubelet says which namespace a Pod is in.
const MountedNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// maxNamespaceFile is far more than a namespace's name has, bytes.
const maxNamespaceFile = 1024

// PodNamespace is the namespace of the Pod that this process is in: POD_NAMESPACE, or what the ServiceAccount's mount
// says. The error says that neither is there.
func PodNamespace(lookupEnv func(string) (string, bool), mount string) (string, error) {
	if name, ok := lookupEnv("POD_NAMESPACE"); ok && name != "" {
		return name, nil
	}
	text, err := pemfile.File{Key: "the namespace of the ServiceAccount", Path: mount}.Read(maxNamespaceFile)
	if err != nil {
		return "", fmt.Errorf("POD_NAMESPACE is not set, and %w", err)
	}
	name := strings.TrimSpace(string(text))
	if name == "" {
		return "", fmt.Errorf("POD_NAMESPACE is not set, and %s is empty", mount)
	}
	return name, nil
}

// PodName is POD_NAME, or the host's name, which is the same in a Pod that has a network of its own.
func PodName(lookupEnv func(string) (string, bool)) string {
	if name, ok := lookupEnv("POD_NAME"); ok && name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return "" // the random part of the identity tells processes apart
	}
	return name
}
