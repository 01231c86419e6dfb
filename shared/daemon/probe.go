package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxReason cuts the text of errors in probe answers and log lines, in bytes.
const maxReason = 512

// probeAll answers for all checks of one kind.
func probeAll(kind string, ask func(context.Context) Report) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, kind, ask(r.Context()), r.URL.Query().Has("verbose"))
	})
}

// probeOne answers for the check that the path names.
func probeOne(kind string, ask func(context.Context, string) (Report, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		report, found := ask(r.Context(), name)
		if !found {
			http.Error(w, fmt.Sprintf("%s has no check %q", kind, name), http.StatusNotFound)
			return
		}
		answer(w, kind, report, r.URL.Query().Has("verbose"))
	})
}

func answer(w http.ResponseWriter, kind string, report Report, verbose bool) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if !report.OK() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// A caller that is gone needs no answer.
	_, _ = io.WriteString(w, render(kind, report, verbose))
}

// render gives one line per check, failing ones only unless verbose, and a summary.
func render(kind string, report Report, verbose bool) string {
	if report.OK() && !verbose {
		return "ok\n"
	}
	var out strings.Builder
	if report.Problem != nil {
		fmt.Fprintf(&out, "[-] %s\n", oneLine(report.Problem.Error()))
	}
	for _, result := range report.Results {
		switch {
		case result.Err != nil:
			fmt.Fprintf(&out, "[-] %s\n", result.Reason())
		case verbose:
			fmt.Fprintf(&out, "[+] %s: ok\n", result.Name)
		}
	}
	if report.OK() {
		fmt.Fprintf(&out, "%s passed\n", kind)
	} else {
		fmt.Fprintf(&out, "%s failed\n", kind)
	}
	return out.String()
}

// oneLine keeps the text of an error on one short line.
func oneLine(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return printable(text)
}
