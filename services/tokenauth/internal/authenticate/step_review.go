package authenticate

import (
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// userPrefix begins the names of the users that are ServiceAccounts; namespace and name follow (contract 6.1 step 6).
const userPrefix = "system:serviceaccount:"

func judgeCredential(run *evaluation) finding {
	if run.facts.CredentialBytes <= 0 {
		return refuse(verdict.CredentialMissing, "the request has no credential")
	}
	return pass()
}

func judgeSize(run *evaluation) finding {
	if n := run.facts.CredentialBytes; n > MaxCredential {
		return refuse(verdict.CredentialTooLarge, "the credential has %d bytes, at most %d are taken", n, MaxCredential)
	}
	return pass()
}

func showCredential(run *evaluation) string {
	return fmt.Sprintf("the credential has %d bytes", run.facts.CredentialBytes)
}

func judgeGateway(run *evaluation) finding {
	ours := run.policy.Scheme.GatewayID
	if got := run.facts.GatewayID; ours == "" || got != ours {
		return refuse(verdict.OtherGateway,
			"the request is for gateway %s, this daemon is for %s: check gateway_id of both, and the address that lifecycle dials", quote(got), quote(ours))
	}
	return pass()
}

func showGateway(run *evaluation) string { return "gateway " + quote(run.facts.GatewayID) }

func judgeForm(run *evaluation) finding {
	if !run.facts.CredentialCompact {
		return refuse(verdict.CredentialMalformed, "the credential is not three parts in the base64 of URLs, each in its one spelling, as every token of the cluster is")
	}
	return pass()
}

func showForm(*evaluation) string { return "the credential has the form of a token" }

func judgeReviewAnswered(run *evaluation) finding {
	found := lookup(run.facts.Review, Question{Subject: SubjectReview}, verdict.ReviewFailed, verdict.ReviewIncomplete)
	if found.reason == verdict.ReviewIncomplete {
		return pass() // the next step's to say
	}
	return found
}

func judgeReviewStatus(run *evaluation) finding {
	if run.review() == nil {
		return refuse(verdict.ReviewIncomplete, "the API server answered the TokenReview without a status")
	}
	return pass()
}

// review is the status; nil unless the API server gave one. Steps behind review.status may rely on it.
func (run *evaluation) review() *authenticationv1.TokenReviewStatus {
	return run.facts.Review.value
}

func showReview(run *evaluation) string {
	if run.review() == nil {
		return "the API server answered"
	}
	return fmt.Sprintf("the API server answered: authenticated %v", run.review().Authenticated)
}

func judgeAuthenticated(run *evaluation) finding {
	status := run.review()
	if status.Authenticated {
		return pass()
	}
	why := "and gave no cause"
	if status.Error != "" {
		why = "because: " + harmless(status.Error)
	}
	return refuse(verdict.CredentialNotAccepted, "the API server did not authenticate the credential, %s", why)
}

func judgeAudience(run *evaluation) finding {
	if slices.Contains(run.review().Audiences, Audience) {
		return pass()
	}
	if len(run.review().Audiences) == 0 {
		return refuse(verdict.AudienceNotAccepted, "the API server confirmed no audience: it may not know audiences at all")
	}
	return refuse(verdict.AudienceNotAccepted, "the API server confirmed the audiences %s, without %s", quoteAll(run.review().Audiences), Audience)
}

func showAudience(run *evaluation) string {
	return "the API server confirmed the audiences " + quoteAll(run.review().Audiences)
}

func judgeUser(run *evaluation) finding {
	username := run.review().User.Username
	namespace, account, ok := serviceAccount(username)
	if !ok {
		return refuse(verdict.NotServiceAccount, "the user %s is not of the form %s{namespace}:{name}", quote(username), userPrefix)
	}
	run.bearer.Namespace, run.bearer.ServiceAccount = namespace, account
	return pass()
}

// serviceAccount reads the username of a ServiceAccount, exactly.
func serviceAccount(username string) (namespace, account string, ok bool) {
	rest, found := strings.CutPrefix(username, userPrefix)
	if !found {
		return "", "", false
	}
	namespace, account, found = strings.Cut(rest, ":")
	if !found || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(account)) > 0 {
		return "", "", false
	}
	return namespace, account, true
}

func showUser(run *evaluation) string {
	return fmt.Sprintf("ServiceAccount %s in namespace %s", quote(run.bearer.ServiceAccount), quote(run.bearer.Namespace))
}

func judgeAccount(run *evaluation) finding {
	if run.account() < 0 {
		return refuse(verdict.AccountNotAccepted, "ServiceAccount %s is not one that sandboxes run under (service_account_name)", quote(run.bearer.ServiceAccount))
	}
	return pass()
}

// account is the place of the bearer's ServiceAccount in the policy; negative when it has none.
func (run *evaluation) account() int {
	return slices.IndexFunc(run.policy.Accounts, func(a Account) bool { return a.Name == run.bearer.ServiceAccount })
}

func showAccount(run *evaluation) string {
	return fmt.Sprintf("ServiceAccount %s is for %s", quote(run.bearer.ServiceAccount), run.policy.Accounts[run.account()].Purpose)
}

func judgePodBinding(run *evaluation) finding {
	name, ok := only(run.review().User.Extra[ExtraPodName])
	if !ok {
		return refuse(verdict.NotPodBound, "the review has %s for %s, not one value", quoteAll(run.review().User.Extra[ExtraPodName]), ExtraPodName)
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return refuse(verdict.NotPodBound, "the review has %s for %s, which no Pod can be called", quote(name), ExtraPodName)
	}
	uid, ok := only(run.review().User.Extra[ExtraPodUID])
	if !ok {
		return refuse(verdict.NotPodBound, "the review has %s for %s, not one value", quoteAll(run.review().User.Extra[ExtraPodUID]), ExtraPodUID)
	}
	run.bearer.PodName, run.bearer.PodUID = name, uid
	return pass()
}

// only is the single value of an extra that has exactly one, and not an empty one.
func only(values []string) (string, bool) {
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}

func showPodBinding(run *evaluation) string {
	return fmt.Sprintf("the token is bound to Pod %s with uid %s", quote(run.bearer.PodName), quote(run.bearer.PodUID))
}
