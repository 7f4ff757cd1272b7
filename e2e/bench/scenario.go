//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

const plainBody = `{"model":"` + modelName + `","max_tokens":8,"messages":[{"role":"user","content":"Say in a few words what this is."}]}`

// streamBody asks for a stream with so many tokens.
func streamBody(tokens int, paced bool) string {
	return fmt.Sprintf(`{"model":"%s","stream":true,"max_tokens":%d,"paced":%t,"messages":[{"role":"user","content":"Say in a few words what this is."}]}`,
		modelName, tokens, paced)
}

// longBody has a prompt of 50 KB.
var longBody = strings.Replace(plainBody, "Say in", strings.Repeat("All work and no play makes a dull prompt. ", 50<<10/42)+"Say in", 1)

// chat is a request as a client with keep-alive sends it. Every target gets the same.
func chat(key, body string) []byte {
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nAccept: application/json\r\nUser-Agent: bench/1\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
}

// scenario is one kind of load that every target is put under in turn.
type scenario struct {
	name  string
	about string
	body  string
	load  load // without port and request
	// rounds leaves rounds out of long scenarios; 0 is all.
	rounds int
	memory bool // is measured while all streams are open
}

const streamTokens = 64

// scenarios are in the order in which they run: memory comes first, in processes
// that have done nothing else yet.
func scenarios(s settings) []scenario {
	const paceSettle = time.Second
	openTokens := int(s.openFor / pace)
	return []scenario{
		{name: "open", about: fmt.Sprintf("%d open streams, one event per 20 ms", s.streams), body: streamBody(openTokens, true), rounds: (s.rounds + 1) / 2, memory: true,
			load: load{conns: s.streams, each: 1, ramp: time.Second, settle: paceSettle, stream: openTokens, patience: 60*time.Second + 4*s.openFor}},
		{name: "single", about: "one request at a time", body: plainBody,
			load: load{conns: 1, time: s.short, patience: time.Minute}},
		{name: "plain", about: "64 connections, not streamed", body: plainBody,
			load: load{conns: 64, time: s.long, patience: time.Minute}},
		{name: "burst", about: "64 connections, 64 events at once", body: streamBody(streamTokens, false),
			load: load{conns: 64, time: s.long, stream: streamTokens, patience: time.Minute}},
		{name: "paced", about: "150 streams, 64 events, one per 20 ms", body: streamBody(streamTokens, true),
			load: load{conns: 150, each: max(1, int(s.long/(streamTokens*pace))), ramp: 200 * time.Millisecond, settle: pace, stream: streamTokens, patience: time.Minute}},
		{name: "long", about: "16 connections, prompts of 50 KB", body: longBody,
			load: load{conns: 16, time: s.short, patience: time.Minute}},
	}
}
