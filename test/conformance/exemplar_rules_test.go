package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/api/resource"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

var (
	idRule       = regexp.MustCompile(`^[0-9A-Za-z]([-0-9A-Za-z]{0,34}[0-9A-Za-z])?$`)
	labelRule    = regexp.MustCompile(`^[0-9a-z]([-0-9a-z]{0,61}[0-9a-z])?$`)
	variableRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,100}$`)
	keyRule      = regexp.MustCompile(`^[a-z0-9]{1,20}$`)
	valueRule    = regexp.MustCompile(`^[A-Za-z0-9._-]{0,63}$`)
	quantityRule = regexp.MustCompile(`^[1-9][0-9]{0,9}(m|Ki|Mi|Gi)?$`)
	wordRule     = regexp.MustCompile(`^[!-~]{0,1000}$`)
)

// rules are those by which the exemplar judges a sandbox: narrow, so that whatever is odd is refused.
type rules struct {
	config bool // driver_config is taken
	err    error
}

func (r *rules) demand(ok bool, code codes.Code, field string) {
	if !ok && r.err == nil {
		r.err = status.Error(code, field+": is refused")
	}
}

func (r *rules) valid(ok bool, field string) { r.demand(ok, codes.InvalidArgument, field) }

// judge is nil for a sandbox that may be made.
func (r *rules) judge(s *computev1.DriverSandbox) error {
	const template = "sandbox.spec.template."
	if r.valid(s != nil, "sandbox"); s == nil {
		return r.err
	}
	r.valid(s.GetSpec() != nil, "sandbox.spec")
	r.valid(idRule.MatchString(s.GetId()), "sandbox.id")
	r.valid(labelRule.MatchString(s.GetName()) && !strings.HasPrefix(s.GetName(), "os-"), "sandbox.name")
	r.valid(labelRule.MatchString(s.GetWorkspace()), "sandbox.workspace")
	r.valid(s.GetNamespace() == "", "sandbox.namespace")
	r.valid(wordRule.MatchString(s.GetSpec().GetTemplate().GetImage()), template+"image")
	r.valid(wordRule.MatchString(s.GetSpec().GetLogLevel()), "sandbox.spec.log_level")
	r.environment("sandbox.spec.environment", s.GetSpec().GetEnvironment())
	r.environment(template+"environment", s.GetSpec().GetTemplate().GetEnvironment())
	command := strings.Join(s.GetSpec().GetCommand(), "")
	r.valid(len(s.GetSpec().GetCommand()) < 1000 && len(command) < 10000 && !strings.Contains(command, "\x00"), "sandbox.spec.command")
	r.words(template+"labels", s.GetSpec().GetTemplate().GetLabels())
	r.resources(template+"resources", s.GetSpec().GetTemplate().GetResources())
	if gpu := s.GetSpec().GetResourceRequirements().GetGpu(); gpu != nil && gpu.Count != nil {
		r.valid(gpu.GetCount() > 0, "sandbox.spec.resource_requirements.gpu.count")
	}
	r.platform(template+"platform_config", s.GetSpec().GetTemplate().GetPlatformConfig())
	r.driver(template+"driver_config", s.GetSpec().GetTemplate().GetDriverConfig())
	return r.err
}

func (r *rules) environment(field string, all map[string]string) {
	r.valid(len(all) < 1000, field)
	for name, value := range all {
		r.valid(variableRule.MatchString(name) && !strings.HasPrefix(strings.ToUpper(name), "OPENSHELL_"), field)
		r.valid(len(value) < 10000 && !strings.Contains(value, "\x00"), field)
	}
}

func (r *rules) words(field string, all map[string]string) {
	r.valid(len(all) < 100, field)
	for key, value := range all {
		r.valid(keyRule.MatchString(key) && valueRule.MatchString(value), field)
	}
}

func (r *rules) resources(field string, given *computev1.DriverResourceRequirements) {
	for name, text := range map[string]string{
		"cpu_limit": given.GetCpuLimit(), "cpu_request": given.GetCpuRequest(), "memory_limit": given.GetMemoryLimit(), "memory_request": given.GetMemoryRequest(),
	} {
		r.valid(text == "" || quantityRule.MatchString(text), field+"."+name)
	}
	if r.err == nil && given.GetCpuLimit() != "" && given.GetCpuRequest() != "" {
		limit, request := resource.MustParse(given.GetCpuLimit()), resource.MustParse(given.GetCpuRequest())
		r.valid(request.Cmp(limit) <= 0, field)
	}
}

// strict reads a part of a Struct, and refuses what the target does not have.
func (r *rules) strict(field string, v *structpb.Value, into any) {
	if v == nil {
		return
	}
	if _, null := v.GetKind().(*structpb.Value_NullValue); null {
		r.valid(false, field)
		return
	}
	text, err := json.Marshal(v.AsInterface())
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(into)
	}
	r.valid(err == nil, field)
}

func (r *rules) platform(field string, s *structpb.Struct) {
	if r.valid(proto.Size(s) < 10000, field); r.err != nil {
		return
	}
	var annotations map[string]string
	r.strict(field+".annotations", s.GetFields()["annotations"], &annotations)
	r.words(field+".annotations", annotations)
	var raw struct {
		Limits, Requests map[string]string
	}
	r.strict(field+".resources_raw", s.GetFields()["resources_raw"], &raw)
	for kind := range raw.Limits {
		r.valid(!strings.Contains(kind, "/"), field+".resources_raw")
	}
}

type volumeRule struct {
	Name                  string
	PersistentVolumeClaim *struct {
		ClaimName string `json:"claim_name"`
		ReadOnly  *bool  `json:"read_only"`
	} `json:"persistent_volume_claim"`
}

type mountRule struct {
	Name      string
	MountPath string  `json:"mount_path"`
	SubPath   *string `json:"sub_path"`
	ReadOnly  *bool   `json:"read_only"`
}

func (r *rules) driver(field string, s *structpb.Struct) {
	if len(s.GetFields()) == 0 {
		return
	}
	r.demand(r.config, codes.FailedPrecondition, field)
	if r.valid(proto.Size(s) < 10000, field); r.err != nil {
		return
	}
	var pod struct {
		NodeSelector      map[string]string `json:"node_selector"`
		RuntimeClassName  string            `json:"runtime_class_name"`
		PriorityClassName string            `json:"priority_class_name"`
		Tolerations       []struct{ Key, Operator, Value, Effect string }
	}
	for name := range s.GetFields() {
		r.valid(name == "pod" || name == "containers" || name == "volumes", field)
	}
	members := s.GetFields()["pod"].GetStructValue().GetFields()
	for _, member := range []string{"node_selector", "tolerations", "runtime_class_name", "priority_class_name"} {
		if v := members[member]; v != nil {
			r.strict(field+".pod."+member, structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{member: v}}), &pod)
		}
	}
	r.strict(field+".pod", s.GetFields()["pod"], &pod)
	r.valid(pod.RuntimeClassName == "" || labelRule.MatchString(pod.RuntimeClassName), field+".pod.runtime_class_name")
	r.valid(!strings.HasPrefix(pod.PriorityClassName, "system-"), field+".pod.priority_class_name")
	r.mounts(field, s.GetFields())
}

func (r *rules) mounts(field string, top map[string]*structpb.Value) {
	var volumes []volumeRule
	r.strict(field+".volumes", top["volumes"], &volumes)
	containers := top["containers"].GetStructValue().GetFields()
	agent := containers["agent"].GetStructValue().GetFields()
	for name := range containers {
		r.valid(name == "agent", field+".containers")
	}
	for name := range agent {
		r.valid(name == "resources" || name == "volume_mounts", field+".containers.agent")
	}
	var amounts struct{ Limits, Requests map[string]string }
	r.strict(field+".containers.agent.resources", agent["resources"], &amounts)
	for _, text := range amounts.Limits {
		r.valid(quantityRule.MatchString(text), field+".containers.agent.resources")
	}
	for kind, text := range amounts.Requests {
		r.valid(quantityRule.MatchString(text), field+".containers.agent.resources")
		if limit, limited := amounts.Limits[kind]; r.err == nil && limited {
			request, most := resource.MustParse(text), resource.MustParse(limit)
			r.valid(request.Cmp(most) <= 0, field+".containers.agent.resources")
		}
	}
	var mounts []mountRule
	at := field + ".containers.agent.volume_mounts"
	r.strict(at, agent["volume_mounts"], &mounts)
	declared := map[string]bool{}
	for _, v := range volumes {
		r.valid(labelRule.MatchString(v.Name) && !strings.HasPrefix(v.Name, "openshell-") && v.Name != "workspace", field+".volumes")
		r.valid(!declared[v.Name] && v.PersistentVolumeClaim != nil, field+".volumes")
		declared[v.Name] = true
	}
	paths := map[string]bool{}
	for _, m := range mounts {
		r.valid(declared[m.Name] && !paths[m.MountPath] && (m.ReadOnly == nil || *m.ReadOnly), at)
		r.valid(goodPath(m.MountPath) && strings.HasPrefix(m.MountPath, "/data"), at)
		r.valid(m.SubPath == nil || !strings.HasPrefix(*m.SubPath, "/") && !strings.Contains(*m.SubPath, "..") && goodPath("/"+*m.SubPath), at)
		paths[m.MountPath] = true
	}
}

func goodPath(p string) bool {
	return len(p) < 200 && len(p) > 1 && path.Clean(p) == p && wordRule.MatchString(p) && fmt.Sprintf("%q", p) == `"`+p+`"`
}
