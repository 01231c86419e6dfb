package lookups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// Review makes the TokenReview of a credential for one audience. The error has ErrAbsent when the answer has no status,
// which is another thing than one that is empty: that is how the API server says that no authenticator knows the token.
func (c *Cluster) Review(ctx context.Context, credential secret.Value, audience string) (*authenticationv1.TokenReviewStatus, error) {
	return read(ctx, c, subjectReview, nil, func(ctx context.Context) (*authenticationv1.TokenReviewStatus, error) {
		text := credential.Expose() // it is what the API server is asked about
		defer clear(text)
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(text), Audiences: []string{audience}}}
		// JSON, because a status that is missing and one that is empty are the same to the typed client.
		result := c.client.Typed.AuthenticationV1().RESTClient().Post().Resource("tokenreviews").
			SetHeader("Accept", runtime.ContentTypeJSON).Body(review).Do(ctx)
		answer, err := result.Raw()
		c.metrics.reviewed(codeOf(&result, err))
		if err != nil {
			return nil, reviewFailure(err)
		}
		status, err := statusOf(answer)
		if err != nil {
			return nil, err
		}
		status.Error = withoutCredential(status.Error, text)
		return status, nil
	})
}

// codeOf is the HTTP status of an answer; 0 when there was none. client-go leaves it out of some answers that are errors.
func codeOf(result *rest.Result, err error) int {
	var code int
	if result.StatusCode(&code); code == 0 {
		var status *apierrors.StatusError
		if errors.As(err, &status) {
			code = int(status.ErrStatus.Code)
		}
	}
	return code
}

// statusOf reads the answer to a TokenReview, which also repeats the credential.
func statusOf(answer []byte) (*authenticationv1.TokenReviewStatus, error) {
	var review struct {
		APIVersion string                              `json:"apiVersion"`
		Kind       string                              `json:"kind"`
		Status     *authenticationv1.TokenReviewStatus `json:"status"`
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return nil, fmt.Errorf("the answer is no TokenReview (%T)", err)
	}
	if review.Kind != "TokenReview" || review.APIVersion != authenticationv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("the answer is no TokenReview of %s", authenticationv1.SchemeGroupVersion)
	}
	if review.Status == nil {
		return nil, ErrAbsent
	}
	return review.Status, nil
}

// longestRepeated is how much of a credential a text may have in common with it by chance, bytes.
const longestRepeated = 8

// withoutCredential is text, or a note in its place when a part of the credential is in it.
func withoutCredential(text string, credential []byte) string {
	const note = "(withheld: it repeats a part of the credential)"
	if text == "" || len(credential) == 0 {
		return text
	}
	if !utf8.Valid(credential) {
		return note // JSON has it changed, and it would not be found
	}
	size := min(longestRepeated, len(credential))
	parts := make(map[string]struct{}, len(text))
	for i := 0; i+size <= len(text); i++ {
		parts[text[i:i+size]] = struct{}{}
	}
	for i := 0; i+size <= len(credential); i++ {
		if _, ok := parts[string(credential[i:i+size])]; ok {
			return note
		}
	}
	return text
}
