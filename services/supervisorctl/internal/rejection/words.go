package rejection

import (
	"regexp"
	"strings"
)

const (
	// longest is how many bytes are told, and longestRead how many are read of what the cluster said.
	longest, longestRead = 208, 4096
	// mostNames are told of a list.
	mostNames = 4
)

// The forms of what may be repeated. Their length is bounded by that of all.
const (
	object   = `([a-z0-9][a-z0-9.-]*)`
	resource = `[A-Za-z0-9][A-Za-z0-9._/-]*`
	quantity = `-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?`
	usage    = `(` + resource + `=` + quantity + `(?:,` + resource + `=` + quantity + `)*)`
	path     = `([A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z0-9]+|\[[0-9]+\])*)`
)

// form is one way in which the cluster refuses, and what is told of it.
type form struct {
	said  *regexp.Regexp
	words func(said []string, rest string) string
}

// foreign are those whose words are somebody else's; they are looked for first. Neither these nor the others are ever written to.
var foreign = []form{
	{regexp.MustCompile(`admission webhook "` + object + `" denied the request`), first("the admission webhook ", " denies it")},
	{regexp.MustCompile(`ValidatingAdmissionPolicy '` + object + `' with binding '` + object + `' denied request`), first("the admission policy ", " denies it")},
}

// foreignSigns begin what somebody else says, also where the name has no form that can be told.
var foreignSigns = [...]string{`admission webhook "`, "ValidatingAdmissionPolicy '"}

// The API server's own refusals begin with the object, which is followed by one of these and by the cause.
const (
	signForbidden = " is forbidden: "
	signInvalid   = " is invalid: "
)

// relayed are in front of what the API server or the controller only repeats: the words of a webhook that failed.
var relayed = [...]string{"webhook ", "AdmissionPolicy "}

// forbidden and invalid are the API server's own causes, and stand at the beginning of one. Further in a text anybody may speak: the backend of
// an image policy or of an authorizer is let speak by the same refusal, without a name.
var (
	forbidden = []form{
		{regexp.MustCompile(`^exceeded quota: ` + object + `, requested: ` + usage + `(?:, used: ` + usage + `, limited: ` + usage + `)?`), exceeded},
		{regexp.MustCompile(`^failed quota: ` + object + `: must specify `), unspecified},
		{regexp.MustCompile(`^violates PodSecurity "((?:privileged|baseline|restricted):(?:latest|v1\.[0-9]+))": `), insecure},
		{regexp.MustCompile(`^unable to validate against any security context constraint`), constrained},
		{regexp.MustCompile(`^\[?((?:maximum|minimum) ` + resource + ` usage per (?:Container|Pod|PersistentVolumeClaim) is ` + quantity + `(?:, but (?:limit|request) is ` + quantity + `)?)`), limited},
		{regexp.MustCompile(`^\[?(` + resource + ` max limit to request ratio per (?:Container|Pod) is ` + quantity + `)`), limited},
		{regexp.MustCompile(`^unable to create new content in namespace [a-z0-9-]+ because it is being terminated`), constant("the namespace is being terminated")},
	}
	invalid = []form{{regexp.MustCompile(`^\[?` + path + `: `), first("a field is invalid: ", "")}}
)

// Words are what may be told of what the cluster said; empty when that is nothing.
func Words(said string) string {
	said = Bounded(said, longestRead)
	for _, sign := range foreignSigns {
		if strings.Contains(said, sign) {
			return among(foreign, said)
		}
	}
	before, cause, forms := caused(said)
	for _, sign := range relayed {
		if strings.Contains(before, sign) {
			return ""
		}
	}
	return among(forms, cause)
}

// caused parts a text at the first of the API server's refusals in it.
func caused(said string) (before, cause string, forms []form) {
	at, sign := len(said), ""
	for _, s := range [...]string{signForbidden, signInvalid} {
		if i := strings.Index(said, s); i >= 0 && i < at {
			at, sign = i, s
		}
	}
	switch sign {
	case signForbidden:
		forms = forbidden
	case signInvalid:
		forms = invalid
	}
	return said[:at], said[at+len(sign):], forms
}

// Bounded is somebody else's text, of at most so many bytes. One that is cut ends where a word of it does, with three dots: half a number
// would be read for a whole one.
func Bounded(said string, most int) string {
	const (
		rest    = "..."
		longest = 256 // of a word that means something: a resource's name with its number
	)
	if len(said) > most {
		said = said[:most-len(rest)]
		if i := strings.LastIndexAny(said, " ,"); i > 0 && len(said)-i <= longest {
			said = said[:i]
		}
		said += rest
	}
	return strings.ToValidUTF8(said, "")
}

func among(forms []form, said string) string {
	for _, f := range forms {
		if m := f.said.FindStringSubmatchIndex(said); m != nil {
			found := make([]string, 0, len(m)/2)
			for i := 0; i < len(m); i += 2 {
				text := ""
				if m[i] >= 0 {
					text = said[m[i]:m[i+1]]
				}
				found = append(found, text)
			}
			return cut(f.words(found, said[m[1]:]))
		}
	}
	return ""
}

// cut is a text of at most longest bytes that ends where a part of it does.
func cut(text string) string {
	const rest = ", ..."
	if len(text) <= longest {
		return text
	}
	text = text[:longest-len(rest)]
	if i := strings.LastIndexByte(text, ','); i > 0 {
		text = text[:i]
	}
	return text + rest
}

func constant(text string) func([]string, string) string {
	return func([]string, string) string { return text }
}

func first(before, after string) func([]string, string) string {
	return func(said []string, _ string) string { return before + said[1] + after }
}

// exceeded has the API server's own form, in which a search finds it.
func exceeded(said []string, _ string) string {
	text := "exceeded quota: " + said[1] + ", requested: " + said[2]
	if said[3] != "" {
		text += ", used: " + said[3] + ", limited: " + said[4]
	}
	return text
}

// unspecified is what a quota wants to be said of each container.
func unspecified(said []string, rest string) string {
	return "failed quota: " + said[1] + ": must specify " + strings.Join(resources(rest), ", ")
}

// wanted is one of its resources. The containers' names are the caller's own and are left out.
var wanted = regexp.MustCompile(`^(` + resource + `)(?: for: [a-z0-9,-]+)?`)

func resources(rest string) []string {
	var all []string
	for part := range strings.SplitSeq(rest, "; ") {
		if m := wanted.FindStringSubmatch(part); m != nil && len(all) < mostNames {
			all = append(all, m[1])
		}
	}
	return all
}

func limited(said []string, _ string) string { return "limit range: " + said[1] }
