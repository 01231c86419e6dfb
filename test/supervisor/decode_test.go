package supervisor_test

import "k8s.io/apimachinery/pkg/runtime"

// decode reads JSON types into an object of the API.
func decode(from map[string]any, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from, into)
}
