package replay_test

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	// declared is a test function of a replay; the first group is the report's id.
	declared = regexp.MustCompile(`^func TestReplay([A-Z][0-9]{2})[A-Za-z]*\(`)
	// listed is a row of the table: id, report, and either the directories of its tests or a reason in brackets.
	listed = regexp.MustCompile(`^\| ([A-Z][0-9]{2}) \| [^|]+ \| [^|]+ \| ([^|]+) \|$`)
)

// inTree are the directories of the tests that replay each report.
func inTree(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if match := declared.FindStringSubmatch(line); match != nil {
				if found[match[1]] == nil {
					found[match[1]] = map[string]bool{}
				}
				found[match[1]][filepath.ToSlash(dir)] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// inList is the last column of each report's row.
func inList(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open("README.md")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rows := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if match := listed.FindStringSubmatch(lines.Text()); match != nil {
			if _, twice := rows[match[1]]; twice {
				t.Errorf("report %s is listed twice", match[1])
			}
			rows[match[1]] = match[2]
		}
	}
	return rows
}

func TestEveryReportIsReplayedOrAnsweredFor(t *testing.T) {
	tree, list := inTree(t), inList(t)
	if len(list) == 0 {
		t.Fatal("README.md lists no report")
	}
	for id, where := range list {
		if strings.HasPrefix(where, "(") {
			if tree[id] != nil {
				t.Errorf("report %s has a test in %v, and the list says %s", id, tree[id], where)
			}
			continue
		}
		for dir := range strings.SplitSeq(where, ", ") {
			if !tree[id][strings.Trim(dir, "`")] {
				t.Errorf("report %s: there is no test TestReplay%s… in %s", id, id, dir)
			}
		}
	}
	for id, dirs := range tree {
		for dir := range dirs {
			if !strings.Contains(list[id], "`"+dir+"`") {
				t.Errorf("%s has a test TestReplay%s…, which the list does not say", dir, id)
			}
		}
	}
}
