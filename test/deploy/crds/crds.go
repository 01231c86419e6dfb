// Package crds pins the modules whose CustomResourceDefinitions the shipped manifests are held to: those of cert-manager and of the
// Prometheus operator. The manifests' tests read the definitions from the module cache; nothing here is built into a program.
package crds

import (
	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
)
