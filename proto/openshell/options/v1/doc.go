// Package optionsv1 holds the options that the OpenShell contract puts on methods and fields
// (contract 1.7). Whatever prints a message looks for E_Secret on each field first and shows no
// value that it marks.
//
// Everything but this file is generated from options.proto.
package optionsv1
