package launch

// root is the Field of an Error about the bundle as a whole.
const root = "launch_authentication"

// Error is why a bundle is refused. It holds no value of the bundle. Its gRPC code is FAILED_PRECONDITION.
type Error struct {
	// Field is the path from the top of the bundle, for example supervisor.session_id or verification_keys[1].key_id;
	// launch_authentication for the bundle as a whole.
	Field string
	// Problem says what is wrong and what is expected.
	Problem string
}

// Error names the field and the problem.
func (e *Error) Error() string {
	if e.Field == root {
		return root + ": " + e.Problem
	}
	return root + ": " + e.Field + ": " + e.Problem
}

func refuse(field, problem string) error { return &Error{Field: field, Problem: problem} }

// under is the path of a member.
func under(path, name string) string {
	if path == root {
		return name
	}
	return path + "." + name
}
