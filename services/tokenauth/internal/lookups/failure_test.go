package lookups_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/lookups"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// TestFailuresOfAReviewSayWhatToDoAndNothingOfTheCredential: the API server repeats the credential wherever it can.
func TestFailuresOfAReviewSayWhatToDoAndNothingOfTheCredential(t *testing.T) {
	f := start(t, 30*time.Second)
	const token = "short"
	for name, c := range map[string]struct {
		fault apitest.Fault
		want  string
	}{
		"400":          {apitest.Fail(400, metav1.StatusReasonBadRequest, token), "400"},
		"401":          {apitest.Fail(401, metav1.StatusReasonUnauthorized, token), "our own credentials"},
		"403":          {apitest.Fail(403, metav1.StatusReasonForbidden, token), "create on tokenreviews"},
		"404":          {apitest.Plain(404, token), "does not serve TokenReviews"},
		"429":          {apitest.Fail(429, metav1.StatusReasonTooManyRequests, token), "priority levels"},
		"500":          {apitest.Fail(500, metav1.StatusReasonInternalError, token), "500 Internal Server Error"},
		"503 of proxy": {apitest.Plain(503, token), "503"},
		"odd reason":   {apitest.Fail(500, token, token), "500"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(token))
			panic(http.ErrAbortHandler)
		}, ""},
	} {
		f.On(apitest.TokenReviews, c.fault)
		err := f.review(t.Context(), token)
		if err == nil || errors.Is(err, lookups.ErrAbsent) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoErrorRepeatsWhatWasSentBack: what stands before the API server sends the request back, in forms that are HTTP and in
// forms that are not.
func TestNoErrorRepeatsWhatWasSentBack(t *testing.T) {
	const own, presented = "own-token-in-the-header", "presented-token-in-the-body"
	raw := func(text string) apitest.Fault {
		return func(w http.ResponseWriter, r *http.Request) bool {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return false
			}
			_, _ = fmt.Fprintf(conn, text, r.Header.Get("Authorization")+" "+presented)
			_ = conn.Close()
			return true
		}
	}
	answers := map[string]apitest.Fault{
		"no HTTP at all":    raw("%s\r\n\r\n"),
		"as the version":    raw("HTTP/%s 200 OK\r\n\r\n"),
		"as the status":     raw("HTTP/1.1 %s\r\n\r\n"),
		"as a status text":  raw("HTTP/1.1 500 %s\r\nContent-Length: 0\r\n\r\n"),
		"as a header":       raw("HTTP/1.1 200 OK\r\n%s\r\n\r\n"),
		"as a length":       raw("HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n"),
		"as an encoding":    raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n"),
		"as a chunk":        raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n"),
		"as a way":          raw("HTTP/1.1 302 Found\r\nLocation: https://%s:1/\r\nContent-Length: 0\r\n\r\n"),
		"as a content type": raw("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: 1\r\n\r\nx"),
		"as a warning":      raw("HTTP/1.1 500 Oh\r\nWarning: 299 - \"%s\"\r\nContent-Length: 0\r\n\r\n"),
	}
	for _, code := range []int{200, 400, 403, 404, 500, 503} {
		answers[fmt.Sprintf("as the text of a %d", code)] = func(w http.ResponseWriter, r *http.Request) bool {
			return apitest.Plain(code, r.Header.Get("Authorization")+" "+presented)(w, r)
		}
		answers[fmt.Sprintf("as the message of a %d", code)] = func(w http.ResponseWriter, r *http.Request) bool {
			text := r.Header.Get("Authorization") + " " + presented
			return apitest.Fail(code, metav1.StatusReason(text), text)(w, r)
		}
	}
	world := apitest.Valid(driverconf.ModeShared)
	server := apitest.Start(t, world, apitest.HTTP1)
	server.Rotate(t, own)
	f := startWith(t, world, server, 30*time.Second)
	all := f.reads()
	all[apitest.TokenReviews] = func(ctx context.Context) error { return f.review(ctx, presented) }
	for resource, read := range all {
		for name, fault := range answers {
			f.On(resource, fault)
			err := read(t.Context())
			if err == nil || errors.Is(err, lookups.ErrAbsent) || err.Error() == "" {
				t.Errorf("%s, %s: %v", resource, name, err)
			}
			if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "own-token") || strings.Contains(text, "presented-token") {
				t.Errorf("%s, %s: %v", resource, name, err)
			}
		}
	}
}

// TestWhatIsSaidOfAConnection: who reads the error knows where to look.
func TestWhatIsSaidOfAConnection(t *testing.T) {
	f := start(t, 30*time.Second)
	elsewhere := func(server string) *lookups.Cluster {
		t.Helper()
		text, err := os.ReadFile(f.Kubeconfig(t))
		if err != nil {
			t.Fatal(err)
		}
		own := regexp.MustCompile(`https://[^"]+`).FindString(string(text))
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), own, strings.Replace(server, "OWN", strings.TrimPrefix(own, "https://127.0.0.1"), 1), 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		clients := f.Clients(t, zerolog.Nop(), reg, func(c *kubeclient.Config) { c.Kubeconfig = path })
		cluster, err := lookups.New(clients.Calls, 30*time.Second, reg)
		if err != nil {
			t.Fatal(err)
		}
		return cluster
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	for name, c := range map[string]struct{ server, want string }{
		"nobody listens": {"https://" + free.Addr().String(), "connection refused"},
		"no TLS":         {"https://" + strings.TrimPrefix(plain.URL, "http://"), "TLS handshake"},
		"another name":   {"https://localhostOWN", "certificate-authority"},
	} {
		cluster := elsewhere(c.server)
		_, review := cluster.Review(t.Context(), secret.New([]byte("x")), audience)
		_, pod := cluster.Pod(t.Context(), "sandboxes", "x")
		for _, err := range []error{review, pod} {
			if err == nil || errors.Is(err, lookups.ErrAbsent) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestTheServersTextAboutACredentialIsWithheldWhenItRepeatsIt(t *testing.T) {
	f := start(t, time.Minute)
	f.Change(func(w *apitest.World) { w.RefusedWith = "invalid token %s: no" })
	for _, token := range []string{"abc", "a longer token that is no JWT", strings.Repeat("x", 5000), "\x00\xff", "line\nend"} {
		status, err := f.Review(t.Context(), secret.New([]byte(token)), audience)
		if err != nil || status.Authenticated || !strings.Contains(status.Error, "withheld") {
			t.Errorf("%q: %+v %v", token, status, err)
		}
	}
	f.Change(func(w *apitest.World) { w.RefusedWith = "token has expired" })
	if status, err := f.Review(t.Context(), secret.New([]byte("eyJhbGciOiJIUzI1NiJ9.e30.c2ln")), audience); err != nil || status.Error != "token has expired" {
		t.Errorf("%+v %v", status, err)
	}
}
