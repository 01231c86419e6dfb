package runtimeid

import (
	"fmt"
	"strings"
	"testing"
)

const (
	sandboxUID    = "0a4b8c1e-5f0e-4d9a-9a51-6f7a3c2b1d00"
	supervisorUID = "7c1d2e3f-0a4b-4c8d-8e9f-a0b1c2d3e4f5"
	valid         = "kubernetes://team-a/" + sandboxUID + "/" + supervisorUID
)

func parse(t *testing.T, text string) Identity {
	t.Helper()
	id, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestParse(t *testing.T) {
	id := parse(t, valid)
	if id.Namespace() != "team-a" || id.SandboxUID() != sandboxUID || id.SupervisorUID() != supervisorUID {
		t.Errorf("Parse = %+v", id)
	}
	if id.String() != valid || id.IsZero() {
		t.Errorf("String = %q, zero %v", id, id.IsZero())
	}
	longest := "kubernetes://" + strings.Repeat("n", 63) + "/" + strings.Repeat("a", MaxUID) + "/" + strings.Repeat("b", MaxUID)
	if len(longest) != MaxLength {
		t.Errorf("the longest identity has %d bytes, MaxLength is %d", len(longest), MaxLength)
	}
	parse(t, longest)
}

func TestParseRefuses(t *testing.T) {
	edit := func(from, to string) string { return strings.Replace(valid, from, to, 1) }
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "is empty"},
		{"another driver's", "kyma://team-a/" + sandboxUID, "does not begin with"},
		{"a space in front", " " + valid, "does not begin with"},
		{"a capital scheme", edit("kubernetes", "Kubernetes"), "does not begin with"},
		{"one slash of the scheme missing", edit("://", ":/"), "does not begin with"},
		{"two parts", edit("/"+supervisorUID, ""), "has 2 parts"},
		{"four parts", valid + "/x", "has 4 parts"},
		{"a slash at the end", valid + "/", "has 4 parts"},
		{"no namespace", edit("team-a", ""), "namespace"},
		{"no sandbox", edit(sandboxUID, ""), "the sandbox uid is empty"},
		{"no supervisor", edit(supervisorUID, ""), "the supervisor uid is empty"},
		{"a namespace with a capital", edit("team-a", "Team-a"), "namespace"},
		{"a namespace with a dot", edit("team-a", "team.a"), "namespace"},
		{"a namespace of 64", edit("team-a", strings.Repeat("n", 64)), "namespace"},
		{"a uid of 65", edit(sandboxUID, strings.Repeat("u", 65)), "at most 64"},
		{"a uid with a line break", edit(sandboxUID, "a\nb"), "letters, digits and -"},
		{"a uid with a percent sign", edit(supervisorUID, "a%2Fb"), "letters, digits and -"},
		{"a uid that is not UTF-8", edit(supervisorUID, "a\xff"), "letters, digits and -"},
		{"a space at the end", valid + " ", "letters, digits and -"},
		{"too long", valid + strings.Repeat("a", MaxLength), "bytes, at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, err := Parse(c.text)
			if err == nil || !id.IsZero() {
				t.Fatalf("Parse = %+v, %v", id, err)
			}
			if !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error %q, want one line with %q", err, c.want)
			}
		})
	}
}

func TestComparison(t *testing.T) {
	id := parse(t, valid)
	for _, c := range []struct {
		name        string
		other       Identity
		same, equal bool
	}{
		{"itself", parse(t, valid), true, true},
		{"the next supervisor", parse(t, strings.Replace(valid, supervisorUID, "next", 1)), true, false},
		{"another sandbox", parse(t, strings.Replace(valid, sandboxUID, "other", 1)), false, false},
		{"another namespace", parse(t, strings.Replace(valid, "team-a", "team-b", 1)), false, false},
		{"none", Identity{}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if id.SameSandbox(c.other) != c.same || c.other.SameSandbox(id) != c.same {
				t.Errorf("SameSandbox is not %v both ways", c.same)
			}
			if got := id == c.other; got != c.equal {
				t.Errorf("equal = %v, want %v", got, c.equal)
			}
		})
	}
}

func TestZeroIdentityIsNone(t *testing.T) {
	var zero Identity
	if zero.String() != "" || !zero.IsZero() || zero.SameSandbox(Identity{}) {
		t.Errorf("zero: text %q, IsZero %v, same as itself %v", zero, zero.IsZero(), zero.SameSandbox(Identity{}))
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{valid, "", "kubernetes://", "kubernetes:////", valid + "/", "kubernetes://a/b/c", "kubernetes://a/../c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if err != nil {
			if !id.IsZero() || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 600 {
				t.Fatalf("Parse(%q) = %+v, %v", text, id, err)
			}
			return
		}
		if id.String() != text {
			t.Fatalf("%q comes back as %q", text, id)
		}
		for _, part := range []string{id.Namespace(), id.SandboxUID(), id.SupervisorUID()} {
			if part == "" || strings.ContainsAny(part, "/ \n\x00") {
				t.Fatalf("%q has the part %q", text, part)
			}
		}
	})
}

// FuzzNew shows that no parts can be chosen so that their text reads as other parts.
func FuzzNew(f *testing.F) {
	f.Add("team-a", sandboxUID, supervisorUID)
	f.Add("a", "b/c", "d")
	f.Fuzz(func(t *testing.T, namespace, sandbox, supervisor string) {
		id, err := New(namespace, sandbox, supervisor)
		if err != nil {
			return
		}
		back, err := Parse(id.String())
		if err != nil || back != id || back.Namespace() != namespace || back.SandboxUID() != sandbox || back.SupervisorUID() != supervisor {
			t.Fatalf("%+v comes back as %+v, %v", id, back, err)
		}
	})
}

func Example() {
	expected, err := Parse("kubernetes://team-a/11111111-0000/22222222-0000")
	if err != nil {
		panic(err)
	}
	next, err := New("team-a", "11111111-0000", "33333333-0000")
	if err != nil {
		panic(err)
	}
	fmt.Println(next.SameSandbox(expected), next == expected, next)
	// Output: true false kubernetes://team-a/11111111-0000/33333333-0000
}
