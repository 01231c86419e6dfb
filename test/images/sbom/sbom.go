package sbom

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/package-url/packageurl-go"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Subject is the program that the bill is about.
type Subject struct {
	Name     string    // of the program, such as nswatch
	Path     string    // in the image
	Version  string    // of the program, and of the modules that are built from its repository's work tree
	License  string    // of those modules, an SPDX expression
	Platform string    // such as linux/amd64
	Digest   [32]byte  // SHA-256 of the program's file
	Created  time.Time // of the sources, not of the bill: a bill that is made again is the same
	// Namespace is the URI below which bills are named. Nothing needs to answer there (SPDX 2.3, 6.5).
	Namespace string
}

const unsaid = "NOASSERTION"

// programID is the program's own identifier in the bill.
const programID = "Program"

// Write writes the bill. It fails when the program does not say what it was linked from.
func Write(to io.Writer, s Subject, info *debug.BuildInfo) error {
	document, err := describe(s, info)
	if err != nil {
		return fmt.Errorf("bill of materials of %s: %w", s.Name, err)
	}
	return json.Write(document, to, json.Indent(" "), json.EscapeHTML(false))
}

func describe(s Subject, info *debug.BuildInfo) (*spdx.Document, error) {
	if info == nil || info.Main.Path == "" || info.GoVersion == "" {
		return nil, errors.New("the program holds no build information: build it as a module, with the go command")
	}
	digest := hex.EncodeToString(s.Digest[:])
	d := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      s.Name + " " + s.Version + " " + s.Platform,
		DocumentNamespace: s.Namespace + "/" + s.Name + "/" + s.Platform + "/" + digest,
		CreationInfo: &spdx.CreationInfo{
			Created:  s.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "portcullis-images"}},
		},
		Packages: []*spdx.Package{{
			PackageName: s.Name, PackageSPDXIdentifier: programID, PackageVersion: s.Version, PackageFileName: s.Path,
			PackageChecksums:        []common.Checksum{{Algorithm: common.SHA256, Value: digest}},
			PackageDownloadLocation: unsaid, PackageLicenseConcluded: unsaid, PackageLicenseDeclared: s.License,
			PackageCopyrightText: unsaid, PrimaryPackagePurpose: "APPLICATION",
		}},
		Relationships: []*spdx.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, programID)},
	}
	modules, err := modules(s, info)
	if err != nil {
		return nil, err
	}
	for i, m := range modules {
		// Identifiers hold letters, digits, dots and dashes only (SPDX 2.3, 7.2), which paths do not: a number is as good.
		m.PackageSPDXIdentifier = common.ElementID(fmt.Sprintf("Module-%d", i+1))
		d.Packages = append(d.Packages, m)
		d.Relationships = append(d.Relationships, relation(programID, common.TypeRelationshipDependsOn, m.PackageSPDXIdentifier))
	}
	return d, nil
}

func relation(from common.ElementID, how string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.DocElementID{ElementRefID: from}, Relationship: how, RefB: common.DocElementID{ElementRefID: to}}
}

// modules lists what the program was linked from, by name: its own module, those it depends on, the standard library.
func modules(s Subject, info *debug.BuildInfo) ([]*spdx.Package, error) {
	all := []*debug.Module{&info.Main, {Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}
	all = append(all, info.Deps...)
	var packages []*spdx.Package
	for _, m := range all {
		p, err := module(s, m)
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(a, b *spdx.Package) int { return cmp.Compare(a.PackageName, b.PackageName) })
	return packages, nil
}

func module(s Subject, m *debug.Module) (*spdx.Package, error) {
	name := m.Path
	license := unsaid
	if m.Replace != nil {
		m = m.Replace
	}
	version, sum := m.Version, m.Sum
	switch {
	case version == "" || version == "(devel)": // from the work tree, by a path that says nothing outside of it
		version, sum, license = s.Version, "", s.License
	default:
		name = m.Path // that of the replacement, if it was replaced: that is what is inside
	}
	url, err := purl(name, version)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", name, err)
	}
	p := &spdx.Package{
		PackageName: name, PackageVersion: version, PackageDownloadLocation: unsaid, PackageLicenseConcluded: unsaid,
		PackageLicenseDeclared: license, PackageCopyrightText: unsaid, PrimaryPackagePurpose: "LIBRARY",
		PackageExternalReferences: []*spdx.PackageExternalReference{
			{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url},
		},
	}
	if sum != "" {
		// A sum of the go command is over the files of a module, not over an archive, so it is no checksum of SPDX.
		p.PackageSourceInfo = "go.sum " + sum
	}
	return p, nil
}

func purl(name, version string) (string, error) {
	namespace := path.Dir(name)
	if namespace == "." {
		namespace = ""
	}
	url := packageurl.NewPackageURL(packageurl.TypeGolang, namespace, path.Base(name), version, nil, "")
	if err := url.Normalize(); err != nil {
		return "", err
	}
	return url.ToString(), nil
}
