package request

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxVariables is how many there may be in the end.
	maxVariables = 1024
	// maxVariable is how long one may be with its name: Linux starts no process with a longer text than 128 KiB, and the text has
	// an equals sign and a NUL.
	maxVariable = 128<<10 - 2
	// maxVariableName is longer than any in use.
	maxVariableName = 256
	// maxEnvironment is how many bytes all may take as JSON, in which they stand in the Sandbox and in a Secret.
	maxEnvironment = 256 << 10
	// ownPrefix begins the variables of the runtime, and logLevel is the one of them that a caller may set (contract 7.5).
	ownPrefix = "OPENSHELL_"
	logLevel  = ownPrefix + "LOG_LEVEL"
)

// environment lays the sandbox's over the template's (contract 7.5).
func (c *reading) environment(template, sandbox map[string]string, level string) {
	const ofTemplate, ofSandbox, ofLevel = "sandbox.spec.template.environment", "sandbox.spec.environment", "sandbox.spec.log_level"
	merged, from := map[string]string{}, ofLevel
	for _, layer := range []struct {
		path string
		env  map[string]string
	}{{ofTemplate, template}, {ofSandbox, sandbox}} {
		if len(layer.env) > maxVariables {
			c.invalid(layer.path, "has %d variables, and at most %d are allowed", len(layer.env), maxVariables)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(layer.env)) {
			if c.variable(at(layer.path, name), name, layer.env[name]) {
				merged[name] = layer.env[name]
			}
			if name == logLevel {
				from = at(layer.path, name)
			}
		}
	}
	if level == "" {
		level = merged[logLevel]
	} else {
		from = ofLevel
	}
	delete(merged, logLevel)
	if len(level) > maxLogLevel || strings.ContainsFunc(level, func(r rune) bool { return r < ' ' || r > '~' }) {
		c.invalid(from, "must be at most %d printable characters", maxLogLevel)
	}
	if len(merged) > maxVariables {
		c.invalid(ofSandbox, "makes %d variables together with the template's, and at most %d are allowed", len(merged), maxVariables)
	} else if text, err := json.Marshal(merged); err != nil || len(text) > maxEnvironment {
		c.invalid(ofSandbox, "takes %d bytes together with the template's, and at most %d are allowed", len(text), maxEnvironment)
	}
	c.spec.Environment, c.spec.LogLevel = merged, level
}

// variable reports whether it may be passed on. Its value is in no message.
func (c *reading) variable(path, name, value string) bool {
	switch {
	case len(name) > maxVariableName || len(validation.IsEnvVarName(name)) > 0:
		c.invalid(path, "is no name for a variable: at most %d letters, digits, '_', '-' and '.', and no digit in front", maxVariableName)
	case strings.HasPrefix(strings.ToUpper(name), ownPrefix) && name != logLevel:
		c.reserved(path, "begins with %s: these variables are the driver's own", ownPrefix)
	case len(name)+len(value) > maxVariable:
		c.invalid(path, "has %d bytes with its name, and no process starts with more than %d", len(name)+len(value), maxVariable)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		c.invalid(path, "has a value that is not UTF-8 text without NUL")
	default:
		return true
	}
	return false
}
