package authenticate

import (
	"errors"
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// Subject is what a question is about. The zero value is no question.
type Subject uint8

// The subjects, in the order in which an evaluation asks for them.
const (
	// SubjectReview: the TokenReview of the credential, with the audience Audience.
	SubjectReview Subject = iota + 1
	// SubjectList: the allowlist's answer about a namespace.
	SubjectList
	// SubjectNamespace: the live Namespace.
	SubjectNamespace
	// SubjectPod: the live Pod.
	SubjectPod
	// SubjectSandbox: the live Sandbox, through the version that is named.
	SubjectSandbox
	// SubjectListAgain: the allowlist's answer now, when everything else is known.
	SubjectListAgain
)

// String names the subject for people and as a metric label.
func (s Subject) String() string {
	switch s {
	case SubjectReview:
		return "tokenreview"
	case SubjectList:
		return "allowlist"
	case SubjectNamespace:
		return "namespace"
	case SubjectPod:
		return "pod"
	case SubjectSandbox:
		return "sandbox"
	case SubjectListAgain:
		return "allowlist_again"
	default:
		return "none"
	}
}

// Question is one thing that an evaluation needs to know. It is comparable with ==; the zero Question is none.
type Question struct {
	Subject Subject
	// Namespace of the object, or the one that the list is asked for; empty for the review.
	Namespace string
	// Name of a Pod or Sandbox; empty otherwise.
	Name string
	// Version of a Sandbox; empty otherwise.
	Version sandboxapi.Version
}

// String describes q for a person.
func (q Question) String() string {
	switch q.Subject {
	case SubjectReview:
		return "the TokenReview of the credential"
	case SubjectList:
		return fmt.Sprintf("the allowlist's answer about namespace %s", quote(q.Namespace))
	case SubjectListAgain:
		return fmt.Sprintf("the allowlist's newest answer about namespace %s", quote(q.Namespace))
	case SubjectNamespace:
		return fmt.Sprintf("namespace %s", quote(q.Namespace))
	case SubjectPod:
		return fmt.Sprintf("Pod %s in namespace %s", quote(q.Name), quote(q.Namespace))
	case SubjectSandbox:
		return fmt.Sprintf("Sandbox %s in namespace %s through %s", quote(q.Name), quote(q.Namespace), q.Version)
	default:
		return "nothing"
	}
}

// standing is how far a Lookup has come. The zero value has not begun.
type standing uint8

const (
	notAsked standing = iota
	couldNotAsk
	askedAndAbsent
	askedAndFound
)

// Lookup is the answer to one question to the cluster, or the lack of one. The zero Lookup was not asked for.
type Lookup[T any] struct {
	about    Question
	standing standing
	value    *T
	err      error
}

// Found says that the cluster answered with value, which is shared and must not change. A nil value is an answer that
// cannot be used, which is Failed.
func Found[T any](about Question, value *T) Lookup[T] {
	if value == nil {
		return Failed[T](about, errors.New("the answer is empty"))
	}
	return Lookup[T]{about: about, standing: askedAndFound, value: value}
}

// Missing says that the cluster answered, and that there is no such object. About a TokenReview it says that the answer has
// no status (contract 6.1 step 3). That the API server does not know the resource is not this but Failed.
func Missing[T any](about Question) Lookup[T] {
	return Lookup[T]{about: about, standing: askedAndAbsent}
}

// Failed says that there is no answer, and why. err reaches the operator's explanation, never the caller; it must hold
// nothing of the credential.
func Failed[T any](about Question, err error) Lookup[T] {
	if err == nil {
		err = errors.New("no cause was given")
	}
	return Lookup[T]{about: about, standing: couldNotAsk, err: err}
}

// About is the question that l answers; zero when it was not asked.
func (l Lookup[T]) About() Question { return l.about }

// of is what l says to a question. An answer to another question says nothing.
func (l Lookup[T]) of(q Question) standing {
	if q.Subject == 0 || l.about != q {
		return notAsked
	}
	return l.standing
}
