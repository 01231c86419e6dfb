package apiproxy

import (
	"net/http"
	"strings"
)

// Use is what a request does to a resource, as RBAC has it.
type Use struct {
	Verb, Group, Resource string // the resource with its subresource, as "pods/exec"
	Namespace, Name       string
}

// UseOf reads a request as the API server does. What is about no resource has the path in its place.
func UseOf(r *http.Request) Use {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	use := Use{}
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		use.Group, parts = parts[1], parts[3:]
	default:
		return Use{Verb: strings.ToLower(r.Method), Resource: r.URL.Path}
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		use.Namespace, parts = parts[1], parts[2:]
	}
	use.Resource = parts[0]
	if len(parts) > 1 {
		use.Name = parts[1]
	}
	if len(parts) > 2 {
		use.Resource += "/" + parts[2]
	}
	use.Verb = verbOf(r, use.Name)
	return use
}

func verbOf(r *http.Request, name string) string {
	one := func(with, without string) string {
		if name != "" {
			return with
		}
		return without
	}
	switch r.Method {
	case http.MethodGet:
		if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
			return "watch"
		}
		return one("get", "list")
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return one("delete", "deletecollection")
	}
	return strings.ToLower(r.Method)
}
