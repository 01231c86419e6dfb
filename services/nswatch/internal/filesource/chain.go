package filesource

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is how many symbolic links are followed, as in the kernel.
const maxLinks = 40

// place is a directory to watch.
type place struct {
	path string
	// info tells a directory from another that has taken its path.
	info os.FileInfo
}

// places are the directories whose entries decide what path leads to: each one that holds a symbolic link on the way,
// and the one that holds the file itself. Where something on the way is missing, the last directory that is there
// comes instead, so that its coming is seen. It decides nothing: what cannot be followed is left to the read to
// explain, and a directory that is missed costs one poll period.
func places(path string) []place {
	var found []place
	todo := split(path)
	dir := "/"
	for links := 0; len(todo) > 0 && links <= maxLinks; {
		next := filepath.Join(dir, todo[0])
		todo = todo[1:]
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			return addPlace(found, dir)
		case info.Mode()&os.ModeSymlink != 0:
			found = addPlace(found, dir)
			target, err := os.Readlink(next)
			if err != nil {
				return found
			}
			if filepath.IsAbs(target) {
				dir = "/"
			}
			todo = slices.Concat(split(target), todo)
			links++
		case len(todo) == 0:
			return addPlace(found, dir)
		default:
			dir = next
		}
	}
	return found
}

// split cuts a path into its names. Links were resolved up to each, so that ".." means what it means to the kernel.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

func addPlace(places []place, dir string) []place {
	info, err := os.Stat(dir)
	if err != nil || slices.ContainsFunc(places, func(p place) bool { return p.path == dir }) {
		return places
	}
	return append(places, place{path: dir, info: info})
}
