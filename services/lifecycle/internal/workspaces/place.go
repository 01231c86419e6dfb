package workspaces

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Place is a namespace that sandboxes of one workspace may be made in, as it was when it was read. The zero Place is none.
type Place struct {
	// Namespace is its name. UID is the namespace itself, by which Still knows it again.
	Namespace string
	UID       types.UID
	// Annotations are all that it has; the identity of its sandboxes is read from them (contract 9.4).
	Annotations map[string]string
}

func placeOf(ns *corev1.Namespace) Place {
	return Place{Namespace: ns.Name, UID: ns.UID, Annotations: maps.Clone(ns.Annotations)}
}

// ending reports whether the namespace is on its way out, whatever the timestamp says.
func ending(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating
}
