package kubeclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// parseProxy takes the address of a proxy, which may hold a name and password. The errors never repeat it, as those of
// net/http and client-go do.
func parseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not a URL: want http://host:port, https://host:port or socks5://host:port")
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
	default:
		return nil, errors.New("must begin with http://, https:// or socks5://")
	}
	switch {
	case u.Hostname() == "":
		return nil, errors.New("has no host: want http://host:port")
	case !validPort(u.Port()):
		return nil, errors.New("has a port that is not from 1 to 65535")
	}
	return u, nil
}

// environmentProxy follows HTTPS_PROXY and NO_PROXY as net/http does, lower case first, but refuses a malformed value
// now; net/http would fail each request and print it.
func environmentProxy(getenv func(string) string) (func(*http.Request) (*url.URL, error), error) {
	name, value := firstOf(getenv, "https_proxy", "HTTPS_PROXY")
	if value == "" {
		return noProxy, nil
	}
	if !strings.Contains(value, "://") { // host:port is usual there
		value = "http://" + value
	}
	proxy, err := parseProxy(value)
	if err != nil {
		return nil, fmt.Errorf("the variable %s %w", name, err)
	}
	_, exceptions := firstOf(getenv, "no_proxy", "NO_PROXY")
	choose := (&httpproxy.Config{HTTPSProxy: proxy.String(), NoProxy: exceptions}).ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }, nil
}

// noProxy is not nil, because nil means net/http's own way to apimachinery.
func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

func firstOf(getenv func(string) string, names ...string) (name, value string) {
	for _, name := range names {
		if value := getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}
