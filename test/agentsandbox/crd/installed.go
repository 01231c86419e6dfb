package crd

import (
	"context"
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	typed "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Installed returns the variant that the cluster has, "" for none, and a value without versions for a definition that this
// package did not make.
func Installed(ctx context.Context, config *rest.Config) (Variant, error) {
	definitions, err := client(config)
	if err != nil {
		return "", err
	}
	d, err := definitions.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the CRD %s: %w", Name, err)
	}
	return variantOf(d), nil
}

// variantOf tells which variant a definition is. One that this package did not make has a variant that equals none of
// ours, so that every plan refuses it.
func variantOf(d *apiextensions.CustomResourceDefinition) Variant {
	if d == nil {
		return ""
	}
	if v := Variant(d.Annotations[annotationVariant]); v.Versions() != nil {
		return v
	}
	return "made by someone else"
}

func sameText(have, want *apiextensions.CustomResourceDefinition) bool {
	return have.Annotations[annotationVariant] == want.Annotations[annotationVariant] &&
		have.Annotations[annotationDigest] == want.Annotations[annotationDigest]
}

func client(config *rest.Config) (typed.CustomResourceDefinitionInterface, error) {
	c, err := clientset.NewForConfig(unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("make a client for CRDs: %w", err)
	}
	return c.ApiextensionsV1().CustomResourceDefinitions(), nil
}

// unlimited lifts the client's own request limit, which would slow down polling.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}
