package podevent

import (
	"errors"
	"fmt"
	"strings"
)

// The variables that the downward API fills in.
const (
	envName      = "POD_NAME"
	envNamespace = "POD_NAMESPACE"
	envUID       = "POD_UID"
)

// longest is more than any name or UID of an object has, bytes.
const longest = 253

// Pod is the one that this process is in.
type Pod struct{ Namespace, Name, UID string }

// PodOf is the Pod as the environment describes it. The error names what is missing or cannot be what it should.
func PodOf(lookupEnv func(string) (string, bool)) (Pod, error) {
	var pod Pod
	var problems []error
	for _, v := range []struct {
		name string
		to   *string
	}{{envName, &pod.Name}, {envNamespace, &pod.Namespace}, {envUID, &pod.UID}} {
		value, _ := lookupEnv(v.name)
		switch {
		case value == "":
			problems = append(problems, fmt.Errorf("%s is not set", v.name))
		case len(value) > longest || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }):
			problems = append(problems, fmt.Errorf("%s is no name or UID of an object", v.name))
		}
		*v.to = value
	}
	if err := errors.Join(problems...); err != nil {
		return Pod{}, err
	}
	return pod, nil
}
