// Package scenario tells what the whole mesh does, as scripts that an operator can read: testdata/<stage>/<name>.txtar. Each has
// comments, commands, and at its end the story that they must make, word for word.
//
//	go test ./test/scenario                                  all of them
//	go test ./test/scenario -run 'TestScenarios/file/cut'    one
//	go test ./test/scenario -update                          write the stories anew; look at the difference before it is committed
//
// # Stages
//
// A stage is one mesh of real processes (package mesh) on a real API server, with a gateway in front of it (package gateway). All
// scripts of a directory play on one stage, each in namespaces of its own. Stages run at the same time.
//
//	allowlist  operator mode, namespaces chosen by a label; scripts play at once, but for those that begin with alone
//	outage     the same, for scripts in which the list cannot be had; one script after the other, and what one took down is put up
//	           again behind it
//	parts      the same, for scripts in which another part is away
//	file       operator mode, namespaces named by a file; one script after the other
//	shared     shared mode, without NATS
//	managed    managed mode, without NATS
//
// Where the gate closes by age, the bounds on how old the allowlist may be are shortened.
//
// No stage has a node: Pods are stand-ins in all of them. The live update end to end with real Pods is no script: TestDriver of test/e2e and
// `make demo` show it, since both look into Pods and at networks, for which a script has no words.
//
// # Language
//
// It is that of [github.com/rogpeppe/go-internal/testscript], with these commands. A command must succeed; one with ! in front
// must be refused. There is no command that waits for a time: until waits for an answer, for as long as [patience].
//
//	until ANSWER COMMAND              repeats the command until it answers with that word or for that reason
//	expect CODE [REASON]              what the last command answered
//	alone                             as the first command: no other script of the stage plays meanwhile
//
//	namespace make NAME [allowed]     makes a namespace, with the label of trusted ones or without
//	namespace label NAME on|off
//	namespace hold NAME               puts something into it that keeps it Terminating when it is deleted, until unhold
//	namespace unhold NAME
//	namespace delete NAME             asks for it
//	namespace state NAME              Active, Terminating or gone
//
//	workspace ensure NAME             what a gateway asks before it uses a workspace; in operator mode it makes nothing
//	workspace delete NAME
//
//	sandbox create BOX in WORKSPACE   as a user of the gateway
//	sandbox ready BOX                 plays its supervisor with the token of the Pod, and waits until users see it Ready
//	sandbox stop|start|delete BOX
//	sandbox phase BOX                 as users see it; NOT_FOUND when it is gone
//	sandbox get BOX                   as the driver sees it: its Ready condition
//	sandbox list                      those of the script that the driver knows
//	sandbox pods BOX                  those that are in the cluster
//	token exchange BOX                what its supervisor does with the token of its Pod
//
//	daemon kill|pause|resume|stop|run NAME   nswatch, tokenauth, supervisorctl, lifecycle, nats, gateway; pause is SIGSTOP
//	daemon begin lifecycle            runs it and does not wait until it is ready
//	daemon list                       those that run
//	daemon ready NAME                 ready or not_ready, with what fails
//
//	list show                         the namespaces of the script on the published list
//	list verify                       usable, or not
//	list damage snapshot|heartbeat    overwrites the record in NATS
//	list scars snapshot|heartbeat     where in the history of the record that is still
//	list write|replace|mount FILE     puts a file of the script to where the file of namespaces is: written over the old one,
//	                                  renamed over it, or swapped as a ConfigMap is; answers what nswatch makes of it. $NAME in
//	                                  it is the namespace.
//	list remove
//
// Namespaces are named by their names in the script; their real ones are unique to the run. In a story uids, times, revisions and
// lengths of time are left out.
//
// A gateway learns only a code and a sentence. The reason, such as not_listed, is what lifecycle logs for its operator.
//
// Callers: none; it is tests.
package scenario
