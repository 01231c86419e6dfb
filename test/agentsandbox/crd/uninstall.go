package crd

import (
	"context"
	"errors"
	"sync"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Uninstall deletes the definition with every Sandbox of the cluster and returns when both are gone. Without a
// definition it does nothing.
func Uninstall(ctx context.Context, config *rest.Config) error {
	definitions, err := client(config)
	if err != nil {
		return err
	}
	have, err := Installed(ctx, config)
	if err != nil {
		return err
	}
	if have == Both { // objects from before an upgrade cannot be deleted unless they can be converted
		stop, err := convertMeanwhile(ctx, config)
		if err != nil {
			return err
		}
		defer stop()
	}
	return retry(ctx, "delete the CRD "+Name, func(ctx context.Context) (bool, error) {
		err := definitions.Delete(ctx, Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err == nil {
			err = errors.New("it still exists")
		}
		return false, err
	})
}

func convertMeanwhile(ctx context.Context, config *rest.Config) (stop func(), err error) {
	c, err := NewConverter(config, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		_ = c.Run(ctx) // what it could not do shows in what remains
	})
	return func() { cancel(); running.Wait() }, nil
}
