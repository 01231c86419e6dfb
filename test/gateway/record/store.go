package record

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// What a write is refused with.
var (
	ErrExists   = errors.New("exists already")
	ErrNotFound = errors.New("does not exist")
	ErrConflict = errors.New("was changed meanwhile")
	ErrInUse    = errors.New("is in use by another process")
)

var (
	sandboxes  = []byte("sandboxes")  // id -> Row
	names      = []byte("names")      // workspace and name -> id
	workspaces = []byte("workspaces") // name -> Workspace
	keys       = []byte("keys")       // "ring" -> what package credentials keeps
	ring       = []byte("ring")
)

// maxRow bounds what a row takes; a DriverSandboxSpec is far below it.
const maxRow = 4 << 20

// Store is an open file. Its methods are safe for concurrent use.
type Store struct{ db *bbolt.DB }

// Options are how a file is opened. The zero value waits for nobody and syncs every write.
type Options struct {
	// Patience is how long to wait for another process to give the file up; then the error is ErrInUse.
	Patience time.Duration
	// NoSync leaves it to the kernel when writes reach the disk: they survive the process, as every write does, but not the
	// machine. It is for tests, on machines whose disk is busy.
	NoSync bool
}

// Open opens the file, and makes it when there is none.
func Open(path string, o Options) (*Store, error) {
	if info, err := os.Lstat(path); err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0) {
		return nil, fmt.Errorf("open the records %s: mode %s: not a private file; it holds signing keys, so set it to 0600", path, info.Mode())
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: max(o.Patience, time.Millisecond), NoSync: o.NoSync, NoGrowSync: o.NoSync})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open the records %s: the file %w; one gateway serves one store", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("open the records %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{sandboxes, names, workspaces, keys} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the records %s: %w", path, errors.Join(err, db.Close()))
	}
	return &Store{db: db}, nil
}

// Close gives the file up.
func (s *Store) Close() error { return s.db.Close() }

// Create adds a row. finish sees the row with the version that it gets and may complete it. ErrExists when its id, or its name in
// its workspace, is taken.
func (s *Store) Create(row Row, finish func(*Row)) (Row, error) {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		byID, byName := tx.Bucket(sandboxes), tx.Bucket(names)
		if byID.Get([]byte(row.ID)) != nil || byName.Get(nameKey(row)) != nil {
			return ErrExists
		}
		var err error
		if row.Version, err = byID.NextSequence(); err != nil {
			return err
		}
		if finish != nil {
			finish(&row)
		}
		if err := byName.Put(nameKey(row), []byte(row.ID)); err != nil {
			return err
		}
		return put(byID, row.ID, row)
	})
	return row, about(err, "create the row of sandbox %q", row.ID)
}

// Swap replaces the row at row.Version and returns it with its new version. ErrConflict when it has another, ErrNotFound when it
// is gone, ErrExists when the new name is taken.
func (s *Store) Swap(row Row) (Row, error) {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		byID, byName := tx.Bucket(sandboxes), tx.Bucket(names)
		old, err := at(byID, row.ID, row.Version)
		if err != nil {
			return err
		}
		if string(nameKey(old)) != string(nameKey(row)) {
			if byName.Get(nameKey(row)) != nil {
				return ErrExists
			}
			if err := errors.Join(byName.Delete(nameKey(old)), byName.Put(nameKey(row), []byte(row.ID))); err != nil {
				return err
			}
		}
		if row.Version, err = byID.NextSequence(); err != nil {
			return err
		}
		return put(byID, row.ID, row)
	})
	return row, about(err, "change the row of sandbox %q", row.ID)
}

// Remove removes the row if it has the version.
func (s *Store) Remove(id string, version uint64) error {
	return about(s.db.Update(func(tx *bbolt.Tx) error {
		byID := tx.Bucket(sandboxes)
		old, err := at(byID, id, version)
		if err != nil {
			return err
		}
		return errors.Join(tx.Bucket(names).Delete(nameKey(old)), byID.Delete([]byte(id)))
	}), "remove the row of sandbox %q", id)
}

// Get returns a row, or ErrNotFound.
func (s *Store) Get(id string) (row Row, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		row, err = get(tx.Bucket(sandboxes), id)
		return err
	})
	return row, about(err, "read the row of sandbox %q", id)
}

// Find returns the row of a name in a workspace, or ErrNotFound.
func (s *Store) Find(workspace, name string) (row Row, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		id := tx.Bucket(names).Get(nameKey(Row{Workspace: workspace, Name: name}))
		if id == nil {
			return ErrNotFound
		}
		row, err = get(tx.Bucket(sandboxes), string(id))
		return err
	})
	return row, about(err, "read the row of sandbox %q in workspace %q", name, workspace)
}

// List returns all rows, by id.
func (s *Store) List() (rows []Row, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(sandboxes).ForEach(func(id, b []byte) error {
			row, err := decode[Row](string(id), b)
			rows = append(rows, row)
			return err
		})
	})
	return rows, about(err, "list the rows")
}

// PutWorkspace adds or replaces a workspace.
func (s *Store) PutWorkspace(w Workspace) error {
	return about(s.db.Update(func(tx *bbolt.Tx) error {
		return put(tx.Bucket(workspaces), w.Name, w)
	}), "write workspace %q", w.Name)
}

// RemoveWorkspace forgets a workspace. One that is not there is no error.
func (s *Store) RemoveWorkspace(name string) error {
	return about(s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(workspaces).Delete([]byte(name))
	}), "remove workspace %q", name)
}

// Workspaces returns all workspaces, by name.
func (s *Store) Workspaces() (all []Workspace, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(workspaces).ForEach(func(name, b []byte) error {
			w, err := decode[Workspace](string(name), b)
			all = append(all, w)
			return err
		})
	})
	return all, about(err, "list the workspaces")
}

// Ring returns what PutRing kept, nil when that was nothing. The bytes are the caller's, who should clear them.
func (s *Store) Ring() (b []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		b = append(b, tx.Bucket(keys).Get(ring)...)
		return nil
	})
	return b, about(err, "read the signing keys")
}

// PutRing keeps the signing keys.
func (s *Store) PutRing(b []byte) error {
	return about(s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(keys).Put(ring, b) }), "write the signing keys")
}

// Check looks for damage: of the file's pages, and of what leads from names to rows.
func (s *Store) Check() error {
	return s.db.View(func(tx *bbolt.Tx) error {
		var problems []error
		for err := range tx.Check() {
			problems = append(problems, err)
		}
		count := 0
		problems = append(problems, tx.Bucket(names).ForEach(func(key, id []byte) error {
			row, err := get(tx.Bucket(sandboxes), string(id))
			if err == nil && string(nameKey(row)) != string(key) {
				err = fmt.Errorf("name %q leads to the row of %q", key, nameKey(row))
			}
			count++
			return err
		}))
		if rows := tx.Bucket(sandboxes).Stats().KeyN; rows != count {
			problems = append(problems, fmt.Errorf("%d rows and %d names", rows, count))
		}
		return about(errors.Join(problems...), "check the records")
	})
}

func at(b *bbolt.Bucket, id string, version uint64) (Row, error) {
	row, err := get(b, id)
	if err == nil && row.Version != version {
		err = fmt.Errorf("%w: it has version %d, not %d", ErrConflict, row.Version, version)
	}
	return row, err
}

func get(b *bbolt.Bucket, id string) (Row, error) {
	raw := b.Get([]byte(id))
	if raw == nil {
		return Row{}, ErrNotFound
	}
	return decode[Row](id, raw)
}

func put(b *bbolt.Bucket, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(raw) > maxRow {
		return fmt.Errorf("%d bytes, more than %d", len(raw), maxRow)
	}
	return b.Put([]byte(key), raw)
}

func decode[T any](key string, raw []byte) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("the entry %q is damaged: %w", key, err)
	}
	return v, nil
}

// nameKey tells pairs apart whatever the names hold.
func nameKey(row Row) []byte {
	key := binary.BigEndian.AppendUint32(nil, uint32(len(row.Workspace)))
	return append(append(key, row.Workspace...), row.Name...)
}

func about(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
