package app

// RelayServerOptions are those of the server for relays.
var RelayServerOptions = relayServerOptions
