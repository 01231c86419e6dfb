package rejection

import "strings"

// signs are in what is said of an object that is not admitted, whoever says it.
var signs = [...]string{
	"exceeded quota", "failed quota", "violates PodSecurity", "security context constraint", "denied the request", "denied request", "is forbidden", "is invalid",
}

// Of reports whether a text is about an object that the API server does not admit, so that trying again does not help by itself: quota, Pod
// security, a security context constraint, a webhook, a policy, a right or validation. It is not while a quota is new and was not counted yet.
func Of(said string) bool {
	if strings.Contains(said, "status unknown for quota") {
		return false
	}
	for _, sign := range signs {
		if strings.Contains(said, sign) {
			return true
		}
	}
	return false
}
