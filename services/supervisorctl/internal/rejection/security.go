package rejection

import (
	"regexp"
	"slices"
	"strings"
)

// checks are those of Pod security, by the names with which the API server tells of them (k8s.io/pod-security-admission, policy). What it says
// of each beside its name is left out: it quotes the Pod.
var checks = []string{
	"allowPrivilegeEscalation != false", "forbidden AppArmor profile", "forbidden AppArmor profiles", "forbidden sysctls", "host namespaces",
	"hostPath volumes", "hostPort", "hostProcess", "non-default capabilities", "privileged", "probe or lifecycle host", "procMount",
	"restricted volume types", "runAsNonRoot != true", "runAsUser=0", "seLinuxOptions", "seccompProfile", "unrestricted capabilities",
}

func insecure(said []string, rest string) string {
	var failed []string
	for _, check := range checks {
		if at := strings.Index(rest, check+" ("); at == 0 || at > 1 && rest[at-2:at] == ", " {
			failed = append(failed, check)
		}
	}
	text := `violates PodSecurity "` + said[1] + `"`
	if len(failed) > 0 {
		text += ": " + strings.Join(failed, ", ")
	}
	return text
}

// provider is a constraint with what it says of a field first; those that may not be used by the Pod's service account say nothing of one.
var provider = regexp.MustCompile(`provider "?` + object + `"?: \.?` + path + `: (?:Invalid value|Required value|Forbidden)`)

func constrained(_ []string, rest string) string {
	var all []string
	for _, m := range provider.FindAllStringSubmatch(rest, -1) {
		if text := m[1] + ": " + m[2]; len(all) < mostNames && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	text := "unable to validate against any security context constraint"
	if len(all) > 0 {
		text += " (" + strings.Join(all, "; ") + ")"
	}
	return text
}
