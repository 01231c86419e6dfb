package rights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// Verbs are those of objects.
var Verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// Right is one verb on one resource, in a place; the zero Right is none.
type Right struct {
	Verb, Group, Resource string
	// Name is the object that the right is limited to; empty for all.
	Name string
}

// String is the right as the lists have it.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	return text
}

// Of are the rights in a review of rules, each once.
func Of(rules []authorizationv1.ResourceRule) map[Right]bool {
	all := map[Right]bool{}
	for _, rule := range rules {
		maps.Copy(all, ofRule(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames))
	}
	return all
}

// OfPaths are the rights to paths that are no resources; such a path is in the place of the resource.
func OfPaths(rules []authorizationv1.NonResourceRule) map[Right]bool {
	all := map[Right]bool{}
	for _, rule := range rules {
		maps.Copy(all, ofRule(rule.Verbs, []string{""}, rule.NonResourceURLs, nil))
	}
	return all
}

// ofRule are the rights of one rule.
func ofRule(verbs, groups, resources, names []string) map[Right]bool {
	all := map[Right]bool{}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range verbs {
		for _, group := range groups {
			for _, resource := range resources {
				for _, name := range names {
					all[Right{verb, group, resource, name}] = true
				}
			}
		}
	}
	return all
}

// Allows reports whether a set of rights covers a verb on a resource's object of that name. What is named by nobody, a list for
// instance, is covered only by a right to all objects.
func Allows(set map[Right]bool, verb, group, resource, name string) bool {
	return set[Right{verb, group, resource, ""}] || name != "" && set[Right{verb, group, resource, name}]
}

// Holder is a daemon in a place.
type Holder struct{ Daemon, Place string }

// Everywhere are the rights that a daemon has in each of the places.
func Everywhere(held map[Holder]map[Right]bool, daemon string, places []string) map[Right]bool {
	common := maps.Clone(held[Holder{daemon, places[0]}])
	for _, place := range places {
		maps.DeleteFunc(common, func(r Right, _ bool) bool { return !held[Holder{daemon, place}][r] })
	}
	return common
}

// Table lists rights, those that a daemon has in all of the places once.
func Table(held map[Holder]map[Right]bool, daemons, places []string) string {
	var b strings.Builder
	for _, daemon := range daemons {
		common := Everywhere(held, daemon, places)
		section(&b, daemon, "everywhere", common)
		for _, place := range places {
			own := maps.Clone(held[Holder{daemon, place}])
			maps.DeleteFunc(own, func(r Right, _ bool) bool { return common[r] })
			section(&b, daemon, place, own)
		}
	}
	return b.String()
}

// section has a line for each resource, with all verbs on it.
func section(b *strings.Builder, daemon, place string, rights map[Right]bool) {
	verbs := map[string][]string{}
	for r := range rights {
		of := strings.TrimPrefix(r.String(), r.Verb+" ")
		verbs[of] = append(verbs[of], r.Verb)
	}
	for _, of := range slices.Sorted(maps.Keys(verbs)) {
		slices.SortFunc(verbs[of], func(a, b string) int { return slices.Index(Verbs, a) - slices.Index(Verbs, b) })
		fmt.Fprintf(b, "%-14s %-12s %s: %s\n", daemon, place, of, strings.Join(verbs[of], ", "))
	}
}
