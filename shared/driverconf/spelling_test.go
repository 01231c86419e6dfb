package driverconf

import (
	"math/rand/v2"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"namespace", "gateway_id", "no_proxy", "tls", "https_proxy"}
	for name, want := range map[string]string{
		"namespace":   "namespace",
		"namespaces":  "namespace",
		"namepsace":   "namespace", // one swap
		"Namespace":   "namespace",
		"GATEWAY-ID":  "gateway_id",
		"gatewayid":   "gateway_id",
		"no_porxy":    "no_proxy",
		"http_proxy":  "https_proxy",
		"tsl":         "tls",
		"ssl":         "",
		"name":        "",
		"":            "",
		"pod_labels":  "",
		"nnamessppce": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

// slowDistance is the definition, without the table of partial results.
func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	i, j := len(a)-1, len(b)-1
	replace := slowDistance(a[:i], b[:j])
	if a[i] != b[j] {
		replace++
	}
	d := min(slowDistance(a[:i], b)+1, slowDistance(a, b[:j])+1, replace)
	if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
		d = min(d, slowDistance(a[:i-1], b[:j-1])+1)
	}
	return d
}

func TestEditDistanceAgainstItsDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		w := make([]byte, random.IntN(7))
		for i := range w {
			w[i] = "abc"[random.IntN(3)]
		}
		return string(w)
	}
	for range 500 {
		a, b := word(), word()
		if got, want := editDistance(a, b), slowDistance(a, b); got != want {
			t.Fatalf("editDistance(%q, %q) = %d, want %d", a, b, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("a\nb\u2028c\x1b[31m\r"); got != "a b c [31m " {
		t.Errorf("got %q", got)
	}
	long := oneLine(string(make([]byte, 100)) + "é" + string(make([]rune, 10000)))
	if len(long) > 610 {
		t.Errorf("%d bytes", len(long))
	}
}
