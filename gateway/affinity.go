package gateway

import (
	"bytes"
	"hash/crc32"
	"unsafe"
)

const (
	// affinityLeast is the shortest prompt, in bytes, that is worth keeping together with
	// its conversation: a few blocks of an engine's prefix cache.
	affinityLeast = 1024
	// promptStart is how much of a text prompt tells conversations apart.
	promptStart = 4 << 10
)

// castagnoli is computed by the processor, at many gigabytes a second. It is the
// same in every gateway and after a restart, so that they all agree.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// conversation identifies what a request continues: by the client's own word, by
// everything up to the first message of the user, or by the start of a text.
// Later turns begin with the same bytes. Zero means that nothing does.
type conversation struct {
	hash  uint64
	named bool // the client gave prompt_cache_key
	size  int  // of the prompt, in bytes
}

func (q *request) conversation() conversation {
	at := q.messagesAt
	switch {
	case at.some():
	case q.inputAt.some():
		at = q.inputAt
	default:
		at = q.promptAt
	}
	c := conversation{size: at.to - at.from + q.instructionsAt.to - q.instructionsAt.from}
	if q.cacheKeyAt.some() {
		c.named = true
		c.hash = hashBytes(0, q.body[q.cacheKeyAt.from:q.cacheKeyAt.to])
		return c
	}
	if c.size < affinityLeast {
		return c
	}
	text := q.body[at.from:at.to]
	if len(text) > 0 && text[0] == '[' && at != q.promptAt {
		text = text[:firstTurn(text)]
	} else {
		text = text[:min(len(text), promptStart)]
	}
	sum := crc32.Update(0, castagnoli, q.body[q.instructionsAt.from:q.instructionsAt.to])
	c.hash = hashBytes(sum, text)
	return c
}

// firstTurn is where the first message of the user ends in a list of messages, or
// the end of the list when it has none. Prompts are long, so it does not parse: a
// quote within a text is escaped, so the word in bare quotes is a whole string.
func firstTurn(list []byte) int {
	for from := 0; ; {
		i := bytes.Index(list[from:], []byte(`"user"`))
		if i < 0 {
			return len(list)
		}
		at := from + i
		from = at + len(`"user"`)
		before, ok := bytes.CutSuffix(bytes.TrimRight(list[:at], " \t\r\n"), []byte(":"))
		if ok && bytes.HasSuffix(bytes.TrimRight(before, " \t\r\n"), []byte(`"role"`)) {
			return objectEnd(list, from)
		}
	}
}

// objectEnd is where the object ends that at lies in, between two of its strings.
func objectEnd(text []byte, at int) int {
	for depth := 1; at < len(text); at++ {
		switch text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		case '"':
			at = stringEnd(text, at+1)
		}
	}
	return len(text)
}

// stringEnd is the place of the quote that ends the string that at lies in.
func stringEnd(text []byte, at int) int {
	for {
		i := bytes.IndexByte(text[at:], '"')
		if i < 0 {
			return len(text)
		}
		at += i
		slashes := 0
		for k := at - 1; k >= 0 && text[k] == '\\'; k-- {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
		at++
	}
}

func hashBytes(sum uint32, b []byte) uint64 {
	return mix(uint64(crc32.Update(sum, castagnoli, b)) + 1)
}

func hashText(s string) uint64 {
	return hashBytes(0, unsafe.Slice(unsafe.StringData(s), len(s)))
}

// mix spreads a number over all 64 bits (the finaliser of SplitMix64).
func mix(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
