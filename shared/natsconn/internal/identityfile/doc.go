// Package identityfile reads the files that hold certificates, keys and credentials, once and within limits.
//
// It keeps one promise: whatever is wrong with a file, the error is one line that names the settings key, the path
// and the cause, and holds nothing of the content. Devices, pipes and directories are refused without reading them.
//
// Callers: natsconn for the client, natsconn/embedded for the server.
package identityfile
