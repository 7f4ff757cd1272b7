package sim

import (
	"math/rand/v2"
	"strings"
)

// Every word is one token. None needs escaping in JSON; a few are not ASCII, so that
// whoever cuts a stream inside a character is found out.
var words = strings.Fields(`the a to of and in is it for on with that this as are be at by from or an each when
which can will one not all more than into only then so if we you they request token cache prompt answer
model memory batch queue prefill decode latency stream gateway engine replica cluster node driver kernel
weight layer head context window budget limit price tenant key usage minute second average percentile
histogram bucket sample window trace metric alert target objective signal load burst peak idle warm cold
fast slow short long small large steady early late first last next usual rare common simple careful
measure compare reduce increase share split merge route retry cancel finish begin hold keep watch report
café naïve Zürich 東京 мир µs`)

// text makes up the tokens of one answer; the same seed makes the same text.
type text struct {
	rng  *rand.Rand
	left int // words until the sentence ends
	made int
}

func newText(seed, stream uint64) text {
	return text{rng: rand.New(rand.NewPCG(seed, stream))}
}

func (t *text) next(b []byte) []byte {
	word := words[t.rng.IntN(len(words))]
	if t.made > 0 {
		b = append(b, ' ')
	}
	t.made++
	if t.left == 0 {
		t.left = 6 + t.rng.IntN(12)
		if c := word[0]; c >= 'a' && c <= 'z' {
			b = append(b, c-'a'+'A')
			word = word[1:]
		}
	}
	b = append(b, word...)
	if t.left--; t.left == 0 {
		b = append(b, '.')
	}
	return b
}
