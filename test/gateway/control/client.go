package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// Client uses a gateway that another process runs.
type Client struct{ http *http.Client }

// NewClient makes a Client for a socket. It connects when it is used.
func NewClient(socket string) *Client {
	return NewClientOver(func(ctx context.Context) (net.Conn, error) { return udsock.Dial(ctx, socket) })
}

// NewClientOver makes a Client for a socket that dial leads to, from elsewhere.
func NewClientOver(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// Do does one operation. The error is a status when the gateway refused it.
func (c *Client) Do(ctx context.Context, op Operation, r Request) (Reply, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return Reply{}, fmt.Errorf("encode the request: %w", err)
	}
	answer, err := c.send(ctx, http.MethodPost, string(op), body)
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	var reply Reply
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil {
		return Reply{}, fmt.Errorf("ask the gateway for %s: status %s: %w", op, answer.Status, err)
	}
	return reply, reply.err()
}

// Events gives each event, as a line of JSON, to take, until ctx ends or the gateway does.
func (c *Client) Events(ctx context.Context, take func(line []byte)) error {
	follow, err := c.Follow(ctx)
	if err != nil {
		return err
	}
	return follow(take)
}

// Follow asks for events, and returns when the gateway has begun to tell them: none is missed from here on. What it returns is Events, and
// must be called.
func (c *Client) Follow(ctx context.Context) (events func(take func(line []byte)) error, err error) {
	answer, err := c.send(ctx, http.MethodGet, "events", nil)
	if err != nil {
		return nil, err
	}
	return func(take func(line []byte)) error { return follow(ctx, answer, take) }, nil
}

func follow(ctx context.Context, answer *http.Response, take func(line []byte)) error {
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxBody)
	for lines.Scan() {
		take(lines.Bytes())
	}
	if ctx.Err() != nil {
		return nil
	}
	return lines.Err()
}

func (c *Client) send(ctx context.Context, method, what string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://gateway/v1/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the gateway: %w", err)
	}
	return answer, nil
}
