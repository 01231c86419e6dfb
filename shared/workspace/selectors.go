package workspace

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// SelectSandbox finds the objects of one sandbox of one gateway (contract 4.5). Both values must be label values that are
// not empty; anything else is an error, and never becomes a part of a selector.
func SelectSandbox(gatewayID, sandboxID string) (labels.Selector, error) {
	if sandboxID == "" {
		return nil, errors.New("a selector for one sandbox needs its id")
	}
	return selectManaged(gatewayID, func() (*labels.Requirement, error) {
		return labels.NewRequirement(LabelSandboxID, selection.Equals, []string{sandboxID})
	})
}

// SelectGateway finds all sandboxes of one gateway, and is the watch of managed and operator mode (contract 4.5).
func SelectGateway(gatewayID string) (labels.Selector, error) {
	return selectManaged(gatewayID, hasSandboxID)
}

// SelectShared finds the sandboxes of every gateway, and is the watch of shared mode in its one namespace (contract 4.5).
// Whoever uses it looks at LabelGatewayID of what it finds: objects of another gateway are foreign.
func SelectShared() labels.Selector {
	managed, err := labels.NewRequirement(LabelManagedBy, selection.Equals, []string{ManagedByOpenShell})
	if err != nil {
		return labels.Nothing()
	}
	id, err := hasSandboxID()
	if err != nil {
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*managed, *id)
}

func hasSandboxID() (*labels.Requirement, error) {
	return labels.NewRequirement(LabelSandboxID, selection.Exists, nil)
}

func selectManaged(gatewayID string, sandbox func() (*labels.Requirement, error)) (labels.Selector, error) {
	if gatewayID == "" {
		return nil, errors.New("a selector for one gateway needs its id: without it objects of others would be found")
	}
	gateway, err := labels.NewRequirement(LabelGatewayID, selection.Equals, []string{gatewayID})
	if err != nil {
		return nil, fmt.Errorf("select gateway %s: %w", quote(gatewayID), err)
	}
	id, err := sandbox()
	if err != nil {
		return nil, fmt.Errorf("select by sandbox id: %w", err)
	}
	managed, err := labels.NewRequirement(LabelManagedBy, selection.Equals, []string{ManagedByOpenShell})
	if err != nil {
		return nil, fmt.Errorf("select by %s: %w", LabelManagedBy, err)
	}
	return labels.NewSelector().Add(*managed, *id, *gateway), nil
}
