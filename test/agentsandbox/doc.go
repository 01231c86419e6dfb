// Package agentsandbox runs a stand-in for the Agent Sandbox controller (group agents.x-k8s.io) against a real API
// server, with the behaviour of contract 8.3 and 8.4. The module of the real one cannot be had where our tests run.
//
// A test that needs Sandboxes to come alive writes
//
//	agentsandbox.Start(t, cluster.RESTConfig(), agentsandbox.Config{
//		Owns:    agentsandbox.Namespaces(ns),
//		Dialect: reconcile.Newest(),
//	})
//
// and, where no kubelet runs, before it the same with package poddriver for the Pods. The parts:
//
//   - api: names and types of the custom resource;
//   - crd: the CustomResourceDefinition in three variants, and conversion between its versions;
//   - reconcile: the decisions, pure; its Dialect chooses between the newest and older controllers;
//   - this package: watching, acting, writing, and [Faults], with which a test holds, delays or fails any step;
//   - poddriver: a kubelet stand-in.
//
// Test packages that share an API server keep apart by namespace: a controller touches only Sandboxes in the namespaces
// that Config.Owns accepts. The CustomResourceDefinition is shared; see package crd for what that allows.
//
// Left out, because nothing in Portcullis meets it: warm pools and claims (with adoption of Pods that have no owner),
// idle timers, Service ports, and events.
//
// Invariant: the controller deletes with a UID precondition, and reads the Sandbox again from the API server before it
// makes a Pod, so that a cache that lags never brings a Pod to a suspended Sandbox.
package agentsandbox
