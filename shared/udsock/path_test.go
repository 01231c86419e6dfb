//go:build linux

package udsock

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckPath(t *testing.T) {
	const valid = "/run/portcullis/driver.sock"
	if err := CheckPath(valid); err != nil {
		t.Fatalf("the base of all cases must be valid: %v", err)
	}
	cases := map[string]struct {
		path string
		want string
	}{
		"empty":                {"", "is empty"},
		"relative":             {strings.TrimPrefix(valid, "/"), "is relative"},
		"relative with dot":    {"." + valid, "is relative"},
		"trailing slash":       {valid + "/", "ends with a slash"},
		"only a slash":         {"/", "ends with a slash"},
		"NUL in the middle":    {"/run/port\x00cullis/driver.sock", "NUL"},
		"NUL at the end":       {valid + "\x00", "NUL"},
		"abstract by at":       {"@" + valid, "abstract"},
		"abstract by NUL":      {"\x00" + valid, "abstract"},
		"one byte too long":    {"/run/" + strings.Repeat("x", 50) + "/" + strings.Repeat("y", 52), "is 108 bytes long"},
		"long file name":       {"/run/p/" + strings.Repeat("x", 65), "file name of 65 bytes"},
		"dot dot":              {"/run/portcullis/../driver.sock", `write "/run/driver.sock"`},
		"dot":                  {"/run/portcullis/./driver.sock", "shortest form"},
		"ends with dot dot":    {"/run/portcullis/..", "shortest form"},
		"doubled slash":        {"/run//portcullis/driver.sock", "shortest form"},
		"in the root":          {"/driver.sock", "lies directly in /,"},
		"in run":               {"/run/driver.sock", "lies directly in /run,"},
		"in tmp":               {"/tmp/driver.sock", "lies directly in /tmp,"},
		"dot dot into tmp":     {"/tmp/x/../driver.sock", "shortest form"},
		"two leading slashes":  {"/" + valid, "shortest form"},
		"the directory itself": {"/run/portcullis/.", "shortest form"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := CheckPath(c.path)
			if err == nil {
				t.Fatalf("CheckPath(%q) accepted it", c.path)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckPath(%q) = %v, want it to say %q", c.path, err, c.want)
			}
			if strings.ContainsAny(err.Error(), "\x00\n") {
				t.Errorf("CheckPath(%q) = %q: not one clean line", c.path, err)
			}
		})
	}
}

func TestCheckPathAcceptsTheLongestPath(t *testing.T) {
	path := "/run/" + strings.Repeat("x", 37) + "/" + strings.Repeat("y", 64)
	if len(path) != 107 {
		t.Fatalf("test path has %d bytes", len(path))
	}
	if err := CheckPath(path); err != nil {
		t.Error(err)
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{
		"", "/", "@x", "\x00x", "/a/b", "/run/portcullis/driver.sock", "/run/../tmp/x", "a/b", "/a//b", "/a/b/", "/tmp/x",
		"/a/" + strings.Repeat("b", 200), "/a/\xff", "/a/..", "/...", "/a/b\nc", "/proc/self/fd/3",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		err := CheckPath(path)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\x00\n\r") {
				t.Errorf("CheckPath(%q): the error is not one clean line: %q", path, err)
			}
			return
		}
		dir, name := filepath.Split(path)
		switch {
		case !filepath.IsAbs(path), filepath.Clean(path) != path, strings.Contains(path, "\x00"):
			t.Errorf("CheckPath accepted %q, which names different things to different readers", path)
		case len(name) > 64:
			t.Errorf("CheckPath accepted the long name %q", name)
		case len(path) > 107:
			t.Errorf("CheckPath accepted %q of %d bytes", path, len(path))
		case name == "" || name == "." || name == "..":
			t.Errorf("CheckPath accepted %q, which names no file", path)
		case filepath.Clean(dir) == "/" || filepath.Clean(dir) == "/tmp" || filepath.Clean(dir) == "/run":
			t.Errorf("CheckPath accepted %q in a directory of the system", path)
		}
	})
}
