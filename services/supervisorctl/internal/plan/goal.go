package plan

// String is the goal's name in logs and metrics.
func (g Goal) String() string {
	switch g {
	case Provision:
		return "provision"
	case Restart:
		return "restart"
	case Release:
		return "release"
	case Remove:
		return "remove"
	case Keep:
		return "keep"
	}
	return "none"
}
