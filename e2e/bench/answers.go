//go:build linux

package main

import "strconv"

// The tokens of every answer. They are what the ledger has to hold afterwards.
const (
	promptTokens = 13
	plainTokens  = 8
)

const modelName = "bench/model"

// plainAnswer is the whole of an answer that is not streamed.
const plainAnswer = `{"id":"chatcmpl-5f2e0c1d","object":"chat.completion","created":1796075954,"model":"` + modelName +
	`","choices":[{"index":0,"message":{"role":"assistant","content":"A short answer, as classifiers give it."},"logprobs":null,"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":13,"total_tokens":21,"completion_tokens":8,"prompt_tokens_details":null}}`

// An event is what vLLM sends for one token. Its text is the moment at which it was
// due, so that whoever receives it knows its delay.
const (
	chunkHead  = `data: {"id":"chatcmpl-5f2e0c1d","object":"chat.completion.chunk","created":1796075954,"model":"` + modelName + `","choices":[`
	tokenHead  = chunkHead + `{"index":0,"delta":{"content":"`
	tokenTail  = `"},"logprobs":null,"finish_reason":null}]`
	doneEvent  = "data: [DONE]\n\n"
	contentKey = `"delta":{"content":"`
	dueDigits  = 19 // nanoseconds since 1970, until the year 2286
)

// appendToken appends the event of the n-th token. With running, it carries the
// counts so far, as an engine does that was asked for continuous usage.
func appendToken(b []byte, due int64, n int, running bool) []byte {
	b = strconv.AppendInt(append(b, tokenHead...), due, 10)
	b = append(b, tokenTail...)
	if running {
		b = appendUsage(b, n)
	}
	return append(b, "}\n\n"...)
}

// appendFinal appends the event with the counts of the whole answer.
func appendFinal(b []byte, n int) []byte {
	b = append(append(b, chunkHead...), ']')
	return append(appendUsage(b, n), "}\n\n"...)
}

func appendUsage(b []byte, n int) []byte {
	b = strconv.AppendInt(append(b, `,"usage":{"prompt_tokens":13,"total_tokens":`...), int64(promptTokens+n), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(n), 10)
	return append(b, '}')
}

// appendHTTPChunk frames a piece of a body whose length is not known beforehand.
func appendHTTPChunk(b, piece []byte) []byte {
	b = strconv.AppendInt(b, int64(len(piece)), 16)
	b = append(append(b, "\r\n"...), piece...)
	return append(b, "\r\n"...)
}
