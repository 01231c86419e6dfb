package images

import (
	"context"
	"fmt"
)

// Former returns the newest revision whose files below these paths are others than those of the work tree at root: its own commit while the
// work tree is changed there, otherwise the parent of the last commit that changed them. An upgrade from it is one. A repository whose every
// commit has what the work tree has is an error.
func Former(ctx context.Context, root string, paths ...string) (string, error) {
	changed, err := git(ctx, root, append([]string{"status", "--porcelain", "--"}, paths...)...)
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "HEAD", nil
	}
	commit, err := git(ctx, root, append([]string{"log", "-1", "--format=%H", "--"}, paths...)...)
	if err != nil {
		return "", err
	}
	if commit == "" {
		return "", fmt.Errorf("find what was before in %q: no commit has changed it", paths)
	}
	return commit + "^", nil
}
