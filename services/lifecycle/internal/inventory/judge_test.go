package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	attachable = "openshell.ai/sandbox-attachable"
	workspace  = "openshell.ai/sandbox-attachable-workspace"
)

var (
	datasets = inventory.Attachment{Kind: inventory.PersistentVolumeClaim, Namespace: "sandboxes", Name: "datasets"}
	kata     = inventory.Attachment{Kind: inventory.RuntimeClass, Name: "kata"}
)

func object(a inventory.Attachment) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name, UID: "uid-1", Labels: map[string]string{attachable: "true", workspace: "team-a"}}
}

func TestJudge(t *testing.T) {
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for _, c := range []struct {
		name   string
		of     inventory.Attachment
		change func(*metav1.ObjectMeta)
		look   inventory.Look // instead of the object
		off    bool           // resource_admission.enabled
		want   verdict.Reason
	}{
		{"as it must be", datasets, func(*metav1.ObjectMeta) {}, inventory.Look{}, false, ""},
		{"a class as it must be", kata, func(m *metav1.ObjectMeta) { delete(m.Labels, workspace) }, inventory.Look{}, false, ""},
		{"a class of another workspace", kata, func(m *metav1.ObjectMeta) { m.Labels[workspace] = "team-b" }, inventory.Look{}, false, ""},
		{"a class without labels", kata, func(m *metav1.ObjectMeta) { m.Labels = nil }, inventory.Look{}, false, verdict.AttachmentUnlabelled},
		{"without labels", datasets, func(m *metav1.ObjectMeta) { m.Labels = nil }, inventory.Look{}, false, verdict.AttachmentUnlabelled},
		{"without one label", datasets, func(m *metav1.ObjectMeta) { delete(m.Labels, workspace) }, inventory.Look{}, false, verdict.AttachmentUnlabelled},
		{"of another workspace", datasets, func(m *metav1.ObjectMeta) { m.Labels[workspace] = "team-b" }, inventory.Look{}, false, verdict.AttachmentUnlabelled},
		{"of every workspace", datasets, func(m *metav1.ObjectMeta) { m.Labels[workspace] = "${workspace}" }, inventory.Look{}, false, verdict.AttachmentUnlabelled},
		{"with another value", datasets, func(m *metav1.ObjectMeta) { m.Labels[attachable] = "True" }, inventory.Look{}, false, verdict.AttachmentUnlabelled},
		{"without labels, which are not required", datasets, func(m *metav1.ObjectMeta) { m.Labels = nil }, inventory.Look{}, true, ""},
		{"being deleted", datasets, func(m *metav1.ObjectMeta) { m.DeletionTimestamp = new(metav1.Time) }, inventory.Look{}, false, verdict.AttachmentDeleting},
		{"being deleted, without labels", datasets, func(m *metav1.ObjectMeta) { m.DeletionTimestamp, m.Labels = new(metav1.Time), nil }, inventory.Look{}, true, verdict.AttachmentDeleting},
		{"without a uid", datasets, func(m *metav1.ObjectMeta) { m.UID = "" }, inventory.Look{}, true, verdict.AttachmentIncomplete},
		{"with a uid of two lines", datasets, func(m *metav1.ObjectMeta) { m.UID = "a\nb" }, inventory.Look{}, false, verdict.AttachmentIncomplete},
		{"another name", datasets, func(m *metav1.ObjectMeta) { m.Name = "other" }, inventory.Look{}, false, verdict.AttachmentIncomplete},
		{"another namespace", datasets, func(m *metav1.ObjectMeta) { m.Namespace = "other" }, inventory.Look{}, false, verdict.AttachmentIncomplete},
		{"a workspace's, by its label", datasets, func(m *metav1.ObjectMeta) { m.Labels["agents.x-k8s.io/sandbox-name-hash"] = "x" }, inventory.Look{}, true, verdict.AttachmentOfSandbox},
		{"a workspace's, by its owner", datasets, func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "agents.x-k8s.io/v1", Kind: "Sandbox"}}
		}, inventory.Look{}, true, verdict.AttachmentOfSandbox},
		{"a workspace's that somebody labelled for it", datasets, func(m *metav1.ObjectMeta) { m.Labels["agents.x-k8s.io/sandbox-name-hash"] = "x" }, inventory.Look{}, false, ""},
		{"not there", datasets, nil, inventory.Failed(apierrors.NewNotFound(claims, "datasets")), false, verdict.AttachmentAbsent},
		{"not there, wrapped", datasets, nil, inventory.Failed(fmt.Errorf("get: %w", apierrors.NewNotFound(claims, "datasets"))), true, verdict.AttachmentAbsent},
		{"forbidden", datasets, nil, inventory.Failed(apierrors.NewForbidden(claims, "datasets", errors.New("no"))), false, verdict.AttachmentUnreadable},
		{"not known who", datasets, nil, inventory.Failed(apierrors.NewUnauthorized("no")), false, verdict.AttachmentUnreadable},
		{"broken", datasets, nil, inventory.Failed(apierrors.NewInternalError(errors.New("no"))), false, verdict.AttachmentUnreadable},
		{"too slow", datasets, nil, inventory.Failed(context.DeadlineExceeded), false, verdict.AttachmentUnreadable},
		{"never looked for", datasets, nil, inventory.Look{}, true, verdict.AttachmentUnreadable},
		{"found nothing", datasets, nil, inventory.Found(nil), true, verdict.AttachmentUnreadable},
	} {
		w := base(t)
		w.settings.ResourceAdmission.Enabled = !c.off
		look := c.look
		if c.change != nil {
			m := object(c.of)
			c.change(m)
			look = inventory.Found(m)
		}
		uid, d := w.policy(t).Judge(c.of, "team-a", look)
		code, special := map[verdict.Reason]codes.Code{"": codes.OK, verdict.AttachmentUnreadable: codes.Unavailable}[c.want]
		if !special {
			code = codes.FailedPrecondition
		}
		if d.Reason != c.want || d.Code() != code || (uid == "uid-1") != (c.want == "") {
			t.Errorf("%s: %q, %v %s", c.name, uid, d.Code(), d.Explain())
		}
		if c.want != "" && !strings.HasPrefix(d.Message(), c.of.String()+": ") {
			t.Errorf("%s: %q names no object", c.name, d.Message())
		}
	}
	if _, d := new(inventory.Policy).Judge(datasets, "team-a", inventory.Found(object(datasets))); d.Granted() {
		t.Error("the zero policy admits")
	}
}

func TestWhatTheClientSaidIsForTheOperatorAlone(t *testing.T) {
	_, d := base(t).policy(t).Judge(datasets, "team-a", inventory.Failed(errors.New("dial 10.0.0.1: "+strings.Repeat("x", 5000))))
	if strings.Contains(d.Message(), "10.0.0.1") || !strings.Contains(d.Explanation, "10.0.0.1") || len(d.Explanation) > 500 {
		t.Errorf("%q, %.200q", d.Message(), d.Explanation)
	}
}

func TestRecord(t *testing.T) {
	record := inventory.Record{datasets: "uid-1", kata: "uid-2"}
	text, err := record.Encode()
	if want := `{"PersistentVolumeClaim/sandboxes/datasets":"uid-1","RuntimeClass//kata":"uid-2"}`; err != nil || text != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	back, d := inventory.Decode(text)
	if !d.Granted() || len(back) != 2 || back[datasets] != "uid-1" || back[kata] != "uid-2" {
		t.Errorf("%v, %s", back, d.Explain())
	}
	if text, err := inventory.Record(nil).Encode(); err != nil || text != "{}" {
		t.Errorf("no objects are %q, %v", text, err)
	}
	for _, nothing := range []string{"", "{}", " { } "[1:4]} {
		if none, d := inventory.Decode(nothing); !d.Granted() || len(none) != 0 {
			t.Errorf("%q: %v, %s", nothing, none, d.Explain())
		}
	}
	many := inventory.Record{}
	for i := range 65 {
		many[inventory.Attachment{Kind: inventory.RuntimeClass, Name: fmt.Sprintf("c%d", i)}] = "u"
	}
	for name, bad := range map[string]inventory.Record{
		"no uid": {kata: ""}, "no object": {inventory.Attachment{}: "u"}, "too many": many,
		"a claim of the cluster": {{Kind: inventory.PersistentVolumeClaim, Name: "x"}: "u"}, "a class of a namespace": {{Kind: inventory.RuntimeClass, Namespace: "n", Name: "x"}: "u"},
	} {
		if text, err := bad.Encode(); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, text := range []string{
		"x", "null", "[]", `"{}"`, "{", `{"a"}`, `{"RuntimeClass//kata":1}`, `{"RuntimeClass//kata":null}`, `{"RuntimeClass//kata":{"a":"b"}}`, `{"RuntimeClass//kata":""}`,
		`{"RuntimeClass//kata":"u","RuntimeClass//kata":"v"}`, `{"RuntimeClass/n/kata":"u"}`, `{"RuntimeClass/kata":"u"}`, `{"RuntimeClass//":"u"}`, `{"Secret/n/x":"u"}`,
		`{"PersistentVolumeClaim//x":"u"}`, `{"PersistentVolumeClaim/../x":"u"}`, `{"RuntimeClass//kata":"u"} `, `{"RuntimeClass//kata":"u"}{}`, `{"RuntimeClass//kata":"` + strings.Repeat("u", 129) + `"}`,
		`{"RuntimeClass//kata":"u"` + strings.Repeat(" ", 64<<10) + "}",
	} {
		if record, d := inventory.Decode(text); d.Reason != verdict.AttachmentRecordInvalid || d.Code() != codes.FailedPrecondition || record != nil {
			t.Errorf("%.100q: %v, %s", text, record, d.Explain())
		}
	}
}

func TestSame(t *testing.T) {
	recorded := inventory.Record{datasets: "uid-1", kata: "uid-2"}
	for _, c := range []struct {
		name string
		now  inventory.Record
		want string
	}{
		{"the same", inventory.Record{datasets: "uid-1", kata: "uid-2"}, ""},
		{"fewer", inventory.Record{kata: "uid-2"}, ""},
		{"none", nil, ""},
		{"replaced", inventory.Record{datasets: "uid-1", kata: "uid-3"}, "RuntimeClass//kata was replaced"},
		{"more", inventory.Record{datasets: "uid-1", {Kind: inventory.PriorityClass, Name: "high"}: "u"}, "PriorityClass//high was not admitted"},
	} {
		d := recorded.Same(c.now)
		if d.Granted() != (c.want == "") || !strings.HasPrefix(d.Message(), c.want) || c.want != "" && d.Reason != verdict.AttachmentReplaced {
			t.Errorf("%s: %s", c.name, d.Explain())
		}
	}
	if inventory.Record(nil).Same(inventory.Record{kata: "u"}).Granted() {
		t.Error("no record admits")
	}
}

// FuzzDecode: what is read is written back the same, and read again.
func FuzzDecode(f *testing.F) {
	f.Add(`{"PersistentVolumeClaim/sandboxes/datasets":"uid-1","RuntimeClass//kata":"uid-2"}`)
	f.Add(`{"RuntimeClass//a":"b", "PriorityClass//a":"\u0062"}`)
	f.Fuzz(func(t *testing.T, text string) {
		record, d := inventory.Decode(text)
		if !d.Granted() {
			if len(d.Message()) > 500 {
				t.Fatalf("%d bytes", len(d.Message()))
			}
			return
		}
		again, err := record.Encode()
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", text, err)
		}
		back, d := inventory.Decode(again)
		if !d.Granted() || len(back) != len(record) || !record.Same(back).Granted() || !back.Same(record).Granted() {
			t.Fatalf("%q became %q: %s", text, again, d.Explain())
		}
	})
}

func TestKindsLeadSomewhere(t *testing.T) {
	for _, k := range []inventory.Kind{inventory.RuntimeClass, inventory.PriorityClass, inventory.PersistentVolumeClaim} {
		if r := k.Resource(); r.Resource == "" || r.Version != "v1" || k.Namespaced() != (r.Group == "") {
			t.Errorf("%s is at %v", k, r)
		}
	}
	if !inventory.Kind("Secret").Resource().Empty() {
		t.Error("Secrets are somewhere")
	}
}
