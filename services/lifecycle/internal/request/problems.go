package request

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	// maxProblems is how many are told; the rest are counted.
	maxProblems = 20
	// maxProblem is how long one of them may be, in bytes. Of all, as many as the gateway gets are told, whole ones.
	maxProblem = 300
	// maxQuoted is how much of a caller's name is shown.
	maxQuoted = 80
)

type problem struct {
	reason     verdict.Reason
	path, text string
}

// problems is everything that is wrong with one request, in the order in which it was found.
type problems struct {
	found []problem
	more  int
}

func (p *problems) add(reason verdict.Reason, path, format string, args ...any) {
	if len(p.found) == maxProblems {
		p.more++
		return
	}
	p.found = append(p.found, problem{reason, path, fmt.Sprintf(format, args...)})
}

func (p *problems) invalid(path, format string, args ...any) {
	p.add(verdict.RequestInvalid, path, format, args...)
}

func (p *problems) reserved(path, format string, args ...any) {
	p.add(verdict.RequestReserved, path, format, args...)
}

// decision is the refusal, and true when there is nothing to refuse. Its message is made for the caller of the gateway.
func (p *problems) decision() (verdict.Decision, bool) {
	if len(p.found) == 0 {
		return verdict.Decision{}, true
	}
	text := p.text()
	return verdict.Refuse(p.found[0].reason, excerpt.Of(p.found[0].path, maxProblem), text).WithMessage(text), false
}

// text is the first problems and how many more there are, in at most verdict.MaxSafeMessage bytes.
func (p *problems) text() string {
	const room = len("; and  more problems") + 20 // of the number
	var b strings.Builder
	told := 0
	for _, one := range p.found {
		next := excerpt.Of(strings.ToValidUTF8(one.path+": "+one.text, "\uFFFD"), maxProblem)
		if b.Len()+len("; ")+len(next)+room > verdict.MaxSafeMessage {
			break
		}
		if told++; told > 1 {
			b.WriteString("; ")
		}
		b.WriteString(next)
	}
	if more := p.more + len(p.found) - told; more > 0 {
		fmt.Fprintf(&b, "; and %d more problems", more)
	}
	return b.String()
}

// at is the path of an entry of a map, with its key quoted on one line and cut short.
func at(path, key string) string { return path + "[" + quote(key) + "]" }

// item is the path of an element of a list.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// quote shows a name of the caller's in ASCII.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
