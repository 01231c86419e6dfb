package crd

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

//go:embed crd.yaml
var manifest []byte

// Name is the name of the CustomResourceDefinition object.
const Name = api.Resource + "." + api.Group

const (
	annotationVariant = "portcullis.test/crd-variant"
	annotationDigest  = "portcullis.test/crd-digest"
	// unclaimedURL stands in the definition until a Converter registers itself. Nothing listens on port 1, so a request
	// that needs conversion fails at once and says where it tried to connect.
	unclaimedURL = "https://127.0.0.1:1/convert"
)

// Variant says which versions the cluster serves. The zero value is not a variant.
type Variant string

const (
	// V1alpha1 serves and stores only v1alpha1: a cluster from before the version upgrade.
	V1alpha1 Variant = "v1alpha1"
	// V1beta1 serves and stores only v1beta1. It needs no conversion, so no process has to stay alive for it.
	V1beta1 Variant = "v1beta1"
	// Both stores v1beta1 and serves v1alpha1 too, by webhook conversion (contract 8.2).
	Both Variant = "both"
)

// Versions returns the served versions, the stored one first, and nil for a value that is not a variant.
func (v Variant) Versions() []api.Version {
	switch v {
	case V1alpha1:
		return []api.Version{api.V1alpha1}
	case V1beta1:
		return []api.Version{api.V1beta1}
	case Both:
		return []api.Version{api.V1beta1, api.V1alpha1}
	}
	return nil
}

// definition returns the manifest of a variant. Its digest annotation tells an installed definition that came from the
// same text from one of another build.
func definition(v Variant) (*apiextensions.CustomResourceDefinition, error) {
	served := v.Versions()
	if served == nil {
		return nil, fmt.Errorf("unknown CRD variant %q: use V1alpha1, V1beta1 or Both", string(v))
	}
	var d apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(manifest, &d); err != nil {
		return nil, fmt.Errorf("parse the embedded crd.yaml: %w", err)
	}
	d.Spec.Versions = slices.DeleteFunc(d.Spec.Versions, func(x apiextensions.CustomResourceDefinitionVersion) bool {
		return !slices.Contains(served, api.Version(x.Name))
	})
	for i := range d.Spec.Versions {
		d.Spec.Versions[i].Storage = api.Version(d.Spec.Versions[i].Name) == served[0]
	}
	if v == Both {
		d.Spec.Conversion = webhook(unclaimedURL, nil)
	}
	text, err := json.Marshal(d.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode the CRD: %w", err)
	}
	digest := sha256.Sum256(text)
	d.Annotations = map[string]string{
		annotationVariant: string(v),
		annotationDigest:  hex.EncodeToString(digest[:8]),
	}
	return &d, nil
}

func webhook(url string, caBundle []byte) *apiextensions.CustomResourceConversion {
	return &apiextensions.CustomResourceConversion{
		Strategy: apiextensions.WebhookConverter,
		Webhook: &apiextensions.WebhookConversion{
			ClientConfig:             &apiextensions.WebhookClientConfig{URL: &url, CABundle: caBundle},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}
