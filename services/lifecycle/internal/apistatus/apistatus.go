package apistatus

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
)

const (
	// mostFields are told of, each of at most longestField bytes.
	mostFields, longestField = 8, 128
	// longestLogged bounds Logged, and longestRead what it is made of, in bytes.
	longestLogged, longestRead = 600, 4096
)

var (
	word  = regexp.MustCompile(`^[A-Za-z]{1,64}$`)
	field = regexp.MustCompile(`^[A-Za-z0-9_.$/\[\]-]+$`)
	// refusers are the texts of the API server's own code around the name of what refuses.
	refusers = []struct {
		what string
		name *regexp.Regexp
	}{
		{"quota", regexp.MustCompile(`(?:exceeded|failed) quota: ([a-z0-9.-]{1,253})[,:]`)},
		{"admission webhook", regexp.MustCompile(`admission webhook "([a-z0-9.-]{1,253})" denied`)},
		{"admission policy", regexp.MustCompile(`ValidatingAdmissionPolicy '([a-z0-9.:-]{1,253})' with binding`)},
	}
	// quoted is a value in a field error: a string, an object with all that follows up to its end or that of another, or what comes
	// before the next colon.
	quoted = regexp.MustCompile(`(?is)\b(value|values): ?("(?:[^"\\]|\\.)*"?|(?:map\[|&|\{|\[)(?:.*[}\]]|.*)|[^:]*)`)
)

// Told says why the API server refuses something, for whoever asked for it.
func Told(err error) string {
	status, ok := of(err)
	if !ok {
		return "the API server gave no reason"
	}
	text := "the API server refuses it"
	if reason := string(status.Reason); word.MatchString(reason) {
		text += ": " + reason
	}
	text += refuser(status.Message)
	if fields := fieldsOf(&status); len(fields) > 0 {
		text += ": " + strings.Join(fields, ", ")
	}
	return text
}

func refuser(message string) string {
	for _, r := range refusers {
		if m := r.name.FindStringSubmatch(message); m != nil {
			return ", by the " + r.what + " " + m[1]
		}
	}
	return ""
}

func fieldsOf(status *metav1.Status) []string {
	if status.Details == nil {
		return nil
	}
	var fields []string
	more := 0
	for _, cause := range status.Details.Causes {
		at := cause.Field
		switch {
		case len(at) > longestField || !field.MatchString(at):
			continue
		case word.MatchString(string(cause.Type)):
			at += " (" + string(cause.Type) + ")"
		}
		switch {
		case slices.Contains(fields, at):
		case len(fields) == mostFields:
			more++
		default:
			fields = append(fields, at)
		}
	}
	if more > 0 {
		fields = append(fields, fmt.Sprintf("and %d more", more))
	}
	return fields
}

// Logged says what the API server said, for the log.
func Logged(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return excerpt.Of(quoted.ReplaceAllString(text[:min(len(text), longestRead)], "$1: (left out)"), longestLogged)
}

// Quiet is err with Logged as its text. Nil for nil.
func Quiet(err error) error {
	if err == nil {
		return nil
	}
	return &quiet{err}
}

type quiet struct{ error }

func (q *quiet) Error() string { return Logged(q.error) }
func (q *quiet) Unwrap() error { return q.error }

func of(err error) (metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return metav1.Status{}, false
	}
	return status.Status(), true
}
