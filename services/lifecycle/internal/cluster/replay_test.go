package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestReplayL03AWriteRestsOnTheUID: a name that another object has meanwhile is not deleted, whatever a look of before said.
func TestReplayL03AWriteRestsOnTheUID(t *testing.T) {
	var sent metav1.DeleteOptions
	c := raiseRaw(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			fails(http.StatusConflict, metav1.StatusReasonConflict)(w)
			return
		}
		gives(box("g-other", "uid-2"))(w)
	})
	if gone, err := c.Delete(t.Context(), sandboxapi.V1beta1, "team", "box", "uid-1"); gone || err != nil {
		t.Errorf("deleted %t, error %v", gone, err)
	}
	if sent.Preconditions == nil || sent.Preconditions.UID == nil || *sent.Preconditions.UID != "uid-1" {
		t.Errorf("asked to delete with %+v", sent.Preconditions)
	}
}

// TestReplayL04WhatExists: ours is success, foreign is an error of its own, and neither is tried again for ever.
func TestReplayL04WhatExists(t *testing.T) {
	for name, c := range map[string]struct {
		generation string
		want       error
	}{"ours": {"g-ours", nil}, "foreign": {"g-other", cluster.ErrExists}, "of nobody": {"", cluster.ErrExists}} {
		posts := 0
		made, err := raise(t, answers{
			http.MethodPost: func(w http.ResponseWriter) { posts++; fails(http.StatusConflict, metav1.StatusReasonAlreadyExists)(w) },
			http.MethodGet:  gives(box(c.generation, "uid-1")),
		}).Create(t.Context(), func(sandboxapi.Version) (*unstructured.Unstructured, error) { return box("g-ours", ""), nil })
		if !errors.Is(err, c.want) || (c.want == nil) != (made.UID == "uid-1") || posts != 1 {
			t.Errorf("%s: made %+v, error %v, %d requests", name, made, err, posts)
		}
	}
}

// TestReplayL14APodOfAnotherOwner under the same name is not the one that a delete waits for.
func TestReplayL14APodOfAnotherOwner(t *testing.T) {
	for owner, want := range map[types.UID]bool{"uid-1": false, "uid-2": true} {
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "box", OwnerReferences: []metav1.OwnerReference{{UID: owner}}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		c := raise(t, answers{http.MethodGet: func(w http.ResponseWriter) {
			if asked++; asked == 2 { // it waits for the Pod
				cancel()
			}
			_ = json.NewEncoder(w).Encode(pod)
		}})
		if got := c.PodGone(ctx, "team", "box", "uid-1", time.Minute); got != want {
			t.Errorf("with a Pod of %s: gone %t", owner, got)
		}
		cancel()
	}
}

// TestReplayL15AMarkEnds: what a process that died had begun is found by its mark and age, and only then.
func TestReplayL15AMarkEnds(t *testing.T) {
	item := func(name string, age time.Duration, deleting bool) metav1.PartialObjectMetadata {
		m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Now().Add(-age)),
			ResourceVersion: "7", Labels: map[string]string{workspace.LabelCreate: workspace.CreatePending, workspace.LabelSandboxWorkspace: "team"},
		}}
		if deleting {
			m.DeletionTimestamp = new(metav1.Now())
		}
		return m
	}
	copied := item("copied", 10*time.Minute, false)
	copied.Namespace = "restored"
	unmarked := item("unmarked", 10*time.Minute, false)
	delete(unmarked.Labels, workspace.LabelCreate)
	selector := ""
	c := raiseRaw(t, func(w http.ResponseWriter, r *http.Request) {
		selector = r.URL.Query().Get("labelSelector")
		if version := r.URL.Query().Get("resourceVersion"); version != "" {
			t.Errorf("asked for the state of version %q, which may have a mark that is off by now", version)
		}
		_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			Items:    []metav1.PartialObjectMetadata{item("young", time.Minute, false), item("old", 10*time.Minute, false), item("going", 10*time.Minute, true), copied, unmarked},
		})
	})
	found, err := c.Abandoned(t.Context(), 5*time.Minute)
	if err != nil || len(found) != 1 || found[0].UID != "old" || found[0].ResourceVersion != "7" {
		t.Errorf("found %+v, error %v", found, err)
	}
	const want = "openshell.ai/gateway-id=gw,openshell.ai/managed-by=openshell,openshell.ai/sandbox-create=pending,openshell.ai/sandbox-id"
	if selector != want {
		t.Errorf("asked for %q", selector)
	}
}
