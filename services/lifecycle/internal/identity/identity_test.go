package identity_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/identity"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	users  = "openshift.io/sa.scc.uid-range"
	groups = "openshift.io/sa.scc.supplemental-groups"
)

func TestResolve(t *testing.T) {
	nothing := identity.Read(nil)
	at := func(uid, gid string) identity.Namespace {
		return identity.Read(map[string]string{users: uid, groups: gid})
	}
	id := func(v uint32) *uint32 { return &v }
	for _, c := range []struct {
		name     string
		uid, gid *uint32
		ns       identity.Namespace
		want     identity.Identity
		reason   verdict.Reason // empty grants
	}{
		{"nothing said", nil, nil, nothing, identity.Identity{User: 10001, Group: 10001}, ""},
		{"user set", id(7), nil, nothing, identity.Identity{User: 7, Group: 7}, ""},
		{"user set, and the namespace does not count", id(7), nil, at("1000680000/10000", "99/10"), identity.Identity{User: 7, Group: 7}, ""},
		{"user set, and the namespace is not read", id(7), nil, identity.Unread(errors.New("gone")), identity.Identity{User: 7, Group: 7}, ""},
		{"both set", id(7), id(8), identity.Namespace{}, identity.Identity{User: 7, Group: 8}, ""},
		{"group set", nil, id(8), nothing, identity.Identity{User: 10001, Group: 8}, ""},
		{"group set, user allocated", nil, id(8), at("1000680000/10000", "1000690000/10000"), identity.Identity{User: 1000680000, Group: 8}, ""},
		{"allocated", nil, nil, at("1000680000/10000", "1000690000/10000"), identity.Identity{User: 1000680000, Group: 1000690000}, ""},
		{"users allocated alone", nil, nil, at("1000680000/10000", ""), identity.Identity{User: 1000680000, Group: 1000680000}, ""},
		{"groups allocated alone", nil, nil, at("", "1000690000/10000"), identity.Identity{User: 10001, Group: 1000690000}, ""},
		{"with spaces", nil, nil, at(" 5 / 6", "7/"), identity.Identity{User: 5, Group: 7}, ""},
		{"a list of ranges", nil, nil, at("5/6", "7/1,8/2"), identity.Identity{User: 5, Group: 7}, ""},
		{"another form", nil, nil, at("5-6", "5,6/7"), identity.Identity{User: 10001, Group: 10001}, ""},
		{"no slash", nil, nil, at("5", "5"), identity.Identity{User: 10001, Group: 10001}, ""},
		{"zero", nil, nil, at("0/10", "-1/10"), identity.Identity{User: 10001, Group: 10001}, ""},
		{"beyond the contract", nil, nil, at("4294967295/1", "99999999999999999999/1"), identity.Identity{User: 10001, Group: 10001}, ""},
		{"the greatest", nil, nil, at("2147483647/1", ""), identity.Identity{User: 2147483647, Group: 2147483647}, ""},
		{"beyond Kubernetes", nil, nil, at("2147483648/1", ""), identity.Identity{}, verdict.IdentityImpossible},
		{"set beyond Kubernetes", id(4294967294), id(1), nothing, identity.Identity{}, verdict.IdentityImpossible},
		{"group beyond Kubernetes", id(1), id(4294967294), nothing, identity.Identity{}, verdict.IdentityImpossible},
		{"zero by hand", id(0), nil, nothing, identity.Identity{}, verdict.IdentityImpossible},
		{"not read", nil, nil, identity.Unread(errors.New("the server is away")), identity.Identity{}, verdict.IdentityUnreadable},
		{"not read, group set", nil, id(8), identity.Unread(errors.New("the server is away")), identity.Identity{}, verdict.IdentityUnreadable},
		{"the zero namespace", nil, nil, identity.Namespace{}, identity.Identity{}, verdict.IdentityUnreadable},
	} {
		got, d := identity.Resolve(&driverconf.Kubernetes{SandboxUID: c.uid, SandboxGID: c.gid}, c.ns)
		if got != c.want || d.Reason != c.reason || d.Granted() != (c.reason == "") || got.Valid() != d.Granted() {
			t.Errorf("%s: %+v, %s", c.name, got, d.Explain())
		}
		wantCode := map[verdict.Reason]codes.Code{"": codes.OK, verdict.IdentityImpossible: codes.FailedPrecondition, verdict.IdentityUnreadable: codes.Unavailable}[c.reason]
		if d.Code() != wantCode {
			t.Errorf("%s: code %v, want %v", c.name, d.Code(), wantCode)
		}
	}
	if _, d := identity.Resolve(nil, nothing); d.Granted() {
		t.Error("an identity without settings")
	}
}

func TestNeedsNamespace(t *testing.T) {
	uid := uint32(5)
	if !identity.NeedsNamespace(&driverconf.Kubernetes{SandboxGID: &uid}) || identity.NeedsNamespace(&driverconf.Kubernetes{SandboxUID: &uid}) || !identity.NeedsNamespace(nil) {
		t.Error("the wrong settings need a namespace")
	}
}

func TestALongErrorIsCut(t *testing.T) {
	if _, d := identity.Resolve(&driverconf.Kubernetes{}, identity.Unread(errors.New(strings.Repeat("ä", 5000)))); len(d.Explanation) > 500 {
		t.Errorf("the explanation has %d bytes", len(d.Explanation))
	}
}

// FuzzResolve: annotations never lead to an identity that no Pod can have, and never to none without a reason.
func FuzzResolve(f *testing.F) {
	f.Add("1000680000/10000", "1/1")
	f.Add("0/1", "+5/1")
	f.Add("4294967294/", "/")
	f.Fuzz(func(t *testing.T, uid, gid string) {
		got, d := identity.Resolve(&driverconf.Kubernetes{}, identity.Read(map[string]string{users: uid, groups: gid}))
		if d.Granted() != got.Valid() || (!d.Granted() && d.Reason != verdict.IdentityImpossible) {
			t.Fatalf("%q and %q: %+v, %s", uid, gid, got, d.Explain())
		}
	})
}
