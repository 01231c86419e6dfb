package mesh

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestDue(t *testing.T) {
	day := token{issued: noon, expires: noon.Add(24 * time.Hour)}
	for name, c := range map[string]struct {
		of    token
		after time.Duration
		want  bool
	}{
		"new":                             {day, 0, false},
		"before 80 %":                     {day, 19*time.Hour + 11*time.Minute, false},
		"at 80 %":                         {day, 19*time.Hour + 12*time.Minute, true},
		"expired while the machine slept": {day, 72 * time.Hour, true},
		"shorter than asked for":          {token{issued: noon, expires: noon.Add(10 * time.Minute)}, 8 * time.Minute, true},
		"none":                            {token{}, 0, true},
	} {
		if got := c.of.due(noon.Add(c.after)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// issuer is an API server that issues tokens for ServiceAccounts, each another, or refuses.
type issuer struct {
	mu      sync.Mutex
	refuses string
	issued  int
}

// refuse is for one daemon, or for none.
func (i *issuer) refuse(daemon string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refuses = daemon
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.issued
}

func (i *issuer) mesh(t *testing.T) *Mesh {
	t.Helper()
	client := fake.NewClientset()
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateActionImpl)
		if !ok || create.Subresource != "token" {
			return false, nil, nil
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.refuses == create.Name {
			return true, nil, errors.New("not now")
		}
		i.issued++
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: create.Name + strings.Repeat("+", i.issued), ExpirationTimestamp: metav1.NewTime(time.Now().Add(24 * time.Hour)),
		}}, nil
	})
	m := &Mesh{
		options: Options{Dir: t.TempDir(), Namespace: "mesh", Cluster: &rest.Config{Host: "https://127.0.0.1:1"}}, client: client, tokens: map[string]token{},
	}
	for _, daemon := range Daemons() {
		if err := os.Mkdir(m.home(daemon), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := m.kubeconfig(t.Context(), daemon, filepath.Join(m.home(daemon), "kubeconfig")); err != nil {
			t.Fatal(err)
		}
		m.tokens[daemon] = token{issued: noon, expires: noon.Add(24 * time.Hour)}
	}
	return m
}

func (m *Mesh) read(t *testing.T, daemon string) string {
	t.Helper()
	text, err := os.ReadFile(m.tokenFile(daemon))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTokensAreRenewed: those that are due are replaced in the files that the kubeconfigs name, no others, and one that cannot be had stays
// as it is and hinders none of the others.
func TestTokensAreRenewed(t *testing.T) {
	i := new(issuer)
	m := i.mesh(t)
	before := map[string]string{}
	for _, daemon := range Daemons() {
		before[daemon] = m.read(t, daemon)
		config, err := clientcmd.LoadFromFile(filepath.Join(m.home(daemon), "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		if user := config.AuthInfos[daemon]; user.Token != "" || user.TokenFile != m.tokenFile(daemon) {
			t.Errorf("the kubeconfig of %s has the user %+v", daemon, user)
		}
	}
	if err := m.RenewTokens(t.Context(), noon.Add(time.Hour)); err != nil || i.count() != len(before) {
		t.Errorf("after an hour %d tokens were issued for %d daemons, %v", i.count(), len(before), err)
	}
	i.refuse(Supervisorctl)
	if err := m.RenewTokens(t.Context(), noon.Add(20*time.Hour)); err == nil || !strings.Contains(err.Error(), Supervisorctl) {
		t.Errorf("a refusal: %v", err)
	}
	for _, daemon := range Daemons() {
		if got, kept := m.read(t, daemon), daemon == Supervisorctl; (got == before[daemon]) != kept || !strings.HasPrefix(got, daemon) {
			t.Errorf("the token of %s is %q, and was %q", daemon, got, before[daemon])
		}
		if left, _ := filepath.Glob(filepath.Join(m.home(daemon), "*.new")); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
		if info, err := os.Stat(m.tokenFile(daemon)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the token of %s: %v, %v", daemon, info.Mode(), err)
		}
	}
	i.refuse("")
	if err := m.RenewTokens(t.Context(), noon.Add(20*time.Hour)); err != nil || m.read(t, Supervisorctl) == before[Supervisorctl] {
		t.Errorf("the token that could not be had is not renewed: %v", err)
	}
}

// TestKeepTokens: they are renewed in good time, again and again, also after a failure, until the context ends.
func TestKeepTokens(t *testing.T) {
	i := new(issuer)
	m := i.mesh(t)
	synctest.Test(t, func(t *testing.T) {
		for _, daemon := range Daemons() {
			m.tokens[daemon] = token{issued: time.Now(), expires: time.Now().Add(24 * time.Hour)}
		}
		first := i.count()
		ctx, cancel := context.WithCancel(t.Context())
		var failures atomic.Int32
		ended := make(chan struct{})
		go func() {
			m.KeepTokens(ctx, func(error) { failures.Add(1) })
			close(ended)
		}()
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		wait(19 * time.Hour)
		if i.count() != first {
			t.Errorf("after 19 hours %d tokens are new", i.count()-first)
		}
		i.refuse(Lifecycle)
		wait(13 * time.Minute)
		if want := first + len(Daemons()) - 1; i.count() != want || failures.Load() == 0 {
			t.Errorf("at 80 %% of their lives %d tokens are new, and %d failures were told", i.count()-first, failures.Load())
		}
		i.refuse("")
		told := failures.Load()
		wait(2 * time.Minute)
		if want := first + len(Daemons()); i.count() != want || failures.Load() != told {
			t.Errorf("when it can be had again, %d tokens are new, and %d failures were told", i.count()-first, failures.Load()-told)
		}
		wait(20 * time.Hour)
		if want := first + 2*len(Daemons()); i.count() != want {
			t.Errorf("a day later %d tokens are new", i.count()-first)
		}
		cancel()
		<-ended
	})
}
