package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
)

// audience is that of the token which a supervisor's Pod mounts (contract 6.5).
const audience = "openshell-gateway"

// attend plays the supervisors where no Pod runs: as long as a supervisor's Pod is there it exchanges the token that the API server
// issues for that Pod, opens a session, and says that it holds a runtime, which is not true. It runs no command.
func (w *World) attend(ctx context.Context) {
	run, tasks := newTasks(ctx)
	tasks.run("stand-in for the supervisors", func() error {
		tries := map[string]chan struct{}{} // by sandbox, closed when the last one is over
		defer func() {
			for _, over := range tries {
				<-over
			}
		}()
		for run.Err() == nil {
			for _, id := range w.supervised(run) {
				if over := tries[id]; over != nil && !closed(over) {
					continue
				}
				over := make(chan struct{})
				tries[id] = over
				go func() {
					defer close(over)
					_ = w.play(run, id) // refused, or its Pod does not run: it tries again, as the real one
				}()
			}
			select {
			case <-run.Done():
			case <-time.After(playAgain):
			}
		}
		return nil
	})
	w.ends = append(w.ends, func(context.Context) error { return tasks.end() })
}

// supervised are the sandboxes that have a supervisor's Pod. What cannot be found out now is tried again.
func (w *World) supervised(ctx context.Context) (ids []string) {
	selector := workspace.LabelBoundaryRole + "=" + workspace.RoleSupervisor
	pods, err := w.client.CoreV1().Pods(w.team).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil
	}
	for _, pod := range pods.Items {
		ids = append(ids, pod.Labels[workspace.LabelSandboxID])
	}
	return ids
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const playAgain = 250 * time.Millisecond

// play is one try.
func (w *World) play(ctx context.Context, id string) error {
	pod, err := w.client.CoreV1().Pods(w.team).Get(ctx, workspace.SupervisorPod(id), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return errors.New("it does not run")
	}
	bearer, err := w.podToken(ctx, pod)
	if err != nil {
		return err
	}
	cc, err := w.dialGateway()
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	issued, err := session.Issue(bearing(ctx, bearer), cc, session.IssueRequest{SandboxID: id})
	if err != nil {
		return err
	}
	client, err := session.Open(bearing(ctx, issued.Token), cc)
	if err != nil {
		return err
	}
	if err := client.Accepted(); err != nil {
		return err
	}
	if err := client.Send(session.Up{Event: session.Confirmed, Confirmation: &boundary.Confirmation{}}); err != nil {
		return err
	}
	for {
		asked, err := client.Receive()
		if err != nil {
			return err
		}
		failure := boundary.Failed(boundary.Unavailable, "no Pod runs here")
		if err := client.Send(session.Up{ID: asked.ID, Event: session.Failed, Failure: failure}); err != nil {
			return err
		}
	}
}

// dialGateway is a connection as supervisors have it.
func (w *World) dialGateway() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+w.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
}

// impostor presents a token of the workload's own Pod, of the right audience, which the API server vouches for.
func (w *World) impostor(ctx context.Context) (string, error) {
	pod, err := w.client.CoreV1().Pods(w.team).Get(ctx, boxName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	bearer, err := w.podToken(ctx, pod)
	if err != nil {
		return "", err
	}
	cc, err := w.dialGateway()
	if err != nil {
		return "", err
	}
	defer func() { _ = cc.Close() }()
	_, err = session.Issue(bearing(ctx, bearer), cc, session.IssueRequest{SandboxID: w.box})
	switch status.Code(err) {
	case codes.OK:
		return "", errors.New("the workload's Pod got the supervisor's token")
	case codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Sprintf("Pod %s: %s: %s", boxName, status.Code(err), status.Convert(err).Message()), nil
	default:
		return "", fmt.Errorf("nobody said no: %w", err)
	}
}

func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// podToken is what the kubelet would mount into the Pod.
func (w *World) podToken(ctx context.Context, pod *corev1.Pod) (string, error) {
	answer, err := w.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{audience},
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get the token of Pod %s: %w", pod.Name, err)
	}
	return answer.Status.Token, nil
}
