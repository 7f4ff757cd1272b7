package main

import (
	"math/rand/v2"
	"strings"
)

const (
	bytesPerToken  = 4   // the usual rule of thumb for English text
	templateTokens = 7   // what a chat template adds to one message, about
	blockTokens    = 512 // of a named block of a trace
)

// replayPrompt makes up the text of a prompt. Blocks with a name are the same text
// wherever the name comes up, so that prefix caches find what they found when the trace
// was taken; everything else is new with each request.
func replayPrompt(a arrival, seed, number uint64) string {
	size := max(1, a.Input-templateTokens) * bytesPerToken
	var b strings.Builder
	for _, block := range a.Blocks {
		if b.Len() >= size {
			break
		}
		fillWords(&b, min(size, b.Len()+blockTokens*bytesPerToken), rand.New(rand.NewPCG(seed, uint64(block))))
	}
	// The number's upper bit keeps it apart from the names of blocks.
	fillWords(&b, size, rand.New(rand.NewPCG(seed, number|1<<63)))
	return b.String()
}

// fillWords writes words until the text has a length, to the byte.
func fillWords(b *strings.Builder, size int, rnd *rand.Rand) {
	for b.Len() < size {
		word := words[rnd.IntN(len(words))]
		b.WriteString(word[:min(len(word), size-b.Len())])
		if b.Len() < size {
			b.WriteByte(' ')
		}
	}
}
