package manual_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
)

var (
	// link is one to a file of the repository or to a section; leads is a link to a document with the section that is meant beside it.
	link  = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`)
	leads = regexp.MustCompile(`\]\(([^)#\s]+\.md)\), "([^"\n]+)"`)
	// named is the same in a manifest or a description, where links are none.
	named = regexp.MustCompile(`docs/([a-z-]+\.md), "([^"\n]+)"`)
	title = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// sections are the titles of a document's sections.
func sections(t *testing.T, document string) (titles []string) {
	t.Helper()
	for _, found := range title.FindAllStringSubmatch(handbook.Read(t, document), -1) {
		titles = append(titles, found[1])
	}
	return titles
}

// anchor is what a title is linked by.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return -1
	}, strings.ToLower(title))
}

// demandSection demands that a document has a section whose title is, or begins with, what is meant.
func demandSection(t *testing.T, where, document, meant string) {
	t.Helper()
	if !slices.ContainsFunc(sections(t, document), func(title string) bool { return strings.HasPrefix(title, meant) }) {
		t.Errorf("%s: %s has no section %q", where, document, meant)
	}
}

// TestLinksLeadSomewhere: each link of a document leads to what is in the repository, to a section that is there, and so does the name of a
// section beside it; likewise what alerts say.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	count := 0
	for _, document := range append(documents(t), root+"/docs/performance.md") {
		text := handbook.Read(t, document)
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			count++
			target := document
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(document), found[1])
			}
			if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: there is no %s", document, found[1])
				continue
			}
			if meant := found[2]; meant != "" && !slices.ContainsFunc(sections(t, target), func(title string) bool { return anchor(title) == meant }) {
				t.Errorf("%s: %s has no section #%s", document, target, meant)
			}
		}
		for _, found := range leads.FindAllStringSubmatch(text, -1) {
			demandSection(t, document, filepath.Join(filepath.Dir(document), found[1]), found[2])
		}
	}
	rules := root + "/deploy/kustomize/components/prometheus/rules.yaml"
	for _, found := range named.FindAllStringSubmatch(handbook.Read(t, rules), -1) {
		count++
		demandSection(t, rules, root+"/docs/"+found[1], found[2])
	}
	if count < 250 {
		t.Errorf("only %d links were found", count)
	}
}

// TestReadmeHasEveryDocument: who reads README.md finds every document of docs/.
func TestReadmeHasEveryDocument(t *testing.T) {
	t.Parallel()
	text := handbook.Read(t, root+"/README.md")
	found, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(found) < 15 {
		t.Fatalf("%d documents: %v", len(found), err)
	}
	for _, document := range found {
		if name := filepath.Base(document); !strings.Contains(text, "](docs/"+name+")") {
			t.Errorf("README.md has no link to docs/%s", name)
		}
	}
}
