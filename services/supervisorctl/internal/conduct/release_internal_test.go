package conduct

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

// TestTheFenceIsReadBeforeAnythingIsLetGo: whatever somebody does to it while a start is under way, no Secret is made and no gate lifted that
// comes after.
func TestTheFenceIsReadBeforeAnythingIsLetGo(t *testing.T) {
	harms := map[string]struct {
		do     func(w *world)
		reason string
	}{
		"altered": {func(w *world) {
			p := w.policies["openshell-sandbox-workloads"]
			p.Spec.Egress, p.Generation = append(p.Spec.Egress, open), p.Generation+1
		}, "fence_altered"},
		"gone": {func(w *world) { delete(w.policies, "openshell-sandbox-workloads") }, "run_broke"},
		"made anew": {func(w *world) {
			p := w.policies["openshell-sandbox-workloads"].DeepCopy()
			w.stamp(&p.ObjectMeta)
			w.policies[p.Name] = p
		}, "fence_altered"},
		"egress gone":    {func(w *world) { delete(w.policies, "openshell-sandbox-supervisors") }, "run_broke"},
		"foreign":        {func(w *world) { w.policies["openshell-sandbox-workloads"] = foreignPolicy() }, "companion_collision"},
		"egress altered": {func(w *world) { w.policies["openshell-sandbox-supervisors"].Spec.Egress = nil }, "fence_altered"},
	}
	for name, harm := range harms {
		for _, moment := range []struct{ after, never string }{
			{"create secret " + supervisorFile, "ungate"},
			{"ungate " + supervisorPod, "ungate " + boxName},
		} {
			t.Run(name+" after "+moment.after, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(fresh())
					w.after = at(moment.after, func(string) error { w.change(harm.do); return nil })
					s := newSite(t, w)
					if mends := strings.HasSuffix(name, "gone") || name == "made anew"; mends && moment.never == "ungate" {
						s.do(s.goal(plan.Provision)) // as long as both gates are there it stands again before one is lifted
						s.whole()
						return
					}
					s.refused(t.Context(), s.goal(plan.Provision), harm.reason)
					s.bare()
					for _, write := range w.done() {
						if strings.HasPrefix(write, moment.never) {
							t.Errorf("%s", write)
						}
					}
				})
			})
		}
	}
	for name, do := range map[string]func(w *world){
		"the fence is altered": harms["altered"].do,
		"the Service is gone":  func(w *world) { delete(w.services, boundary) },
		"the Sandbox is going": func(w *world) { w.box.Deleting, w.box.ResourceVersion = true, w.next() },
		"the supervisor is somebody else's": func(w *world) {
			w.pods[supervisorPod] = &corev1.Pod{ObjectMeta: foreign(supervisorPod)}
		},
	} {
		t.Run("before the Secrets, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				harmed := false
				w.after = func(write string) error {
					if write == "change sandbox to preparing" && !harmed {
						harmed = true
						w.change(do)
					}
					return nil
				}
				made := 0
				w.before = func(write string) error {
					if strings.HasPrefix(write, "create secret") && harmed {
						w.change(func(w *world) {
							if p := w.policies["openshell-sandbox-workloads"]; p == nil || len(p.Spec.Egress) > 0 || w.services[boundary] == nil || w.box.Deleting || w.pods[supervisorPod].UID == "uid-foreign" {
								made++
							}
						})
					}
					return nil
				}
				s := newSite(t, w)
				if _, err := s.Do(t.Context(), s.goal(plan.Provision)); err != nil || made > 0 || !harmed {
					t.Errorf("%v, %d Secrets for what is not there any more", err, made)
				}
			})
		})
	}
}

// TestLabelsOfAPodThatRuns: without those that the fence selects by no policy is about the Pod, so the run is ended; and no gate is lifted
// from one that lost them.
func TestLabelsOfAPodThatRuns(t *testing.T) {
	for _, label := range []string{"openshell.ai/boundary-role", "openshell.ai/boundary-pair"} {
		for pod, reason := range map[string]string{boxName: "workload_altered", supervisorPod: "run_broke"} {
			for name, edit := range map[string]func(labels map[string]string){
				"removed": func(labels map[string]string) { delete(labels, label) },
				"changed": func(labels map[string]string) { labels[label] = "other" },
			} {
				t.Run(pod+" "+label+" "+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(fresh())
						s := newSite(t, w)
						s.do(s.goal(plan.Provision))
						w.change(func(w *world) { edit(w.pods[pod].Labels) })
						if out := s.looks(); string(out.Step.Reason) != reason || !strings.Contains(out.Step.Explanation, label) {
							t.Errorf("%+v", out.Step)
						}
						s.keep()
						s.bare()
					})
				})
			}
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(fresh())
			w.after = at("ungate "+supervisorPod, func(string) error {
				w.change(func(w *world) { delete(w.pods[boxName].Labels, label); w.pods[boxName].ResourceVersion = w.next() })
				return nil
			})
			s := newSite(t, w)
			s.refused(t.Context(), s.goal(plan.Provision), "workload_altered")
			s.bare()
			for _, write := range w.done() {
				if write == "ungate "+boxName {
					t.Errorf("%s", write)
				}
			}
		})
	}
}
