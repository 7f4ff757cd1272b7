package gateway

import (
	"encoding/binary"
	"math/bits"
)

// maxNesting is how deep objects and lists may lie within each other: as deep as
// encoding/json goes.
const maxNesting = 10_000

// validJSON reports whether a text is one JSON value. It accepts what encoding/json
// does, at several times its speed, which counts because every prompt goes through
// it. It does not call itself: a body of opening brackets costs no stack.
func validJSON(b []byte) bool {
	var objects [maxNesting/64 + 1]uint64 // a bit for each open level: object or list
	depth, i := 0, 0
	const (
		value = iota // comes next
		key
		firstKey
		firstValue
		after
	)
	for state := value; ; {
		i = skipSpace(b, i)
		if i == len(b) {
			return state == after && depth == 0
		}
		c := b[i]
		inObject := depth > 0 && objects[(depth-1)>>6]>>(uint(depth-1)&63)&1 == 1
		switch state {
		case after:
			switch {
			case depth == 0:
				return false
			case c == ',' && inObject:
				i, state = i+1, key
			case c == ',':
				i, state = i+1, value
			case c == '}' && inObject, c == ']' && !inObject:
				i, depth = i+1, depth-1
			default:
				return false
			}
			continue
		case firstKey, firstValue:
			if c == '}' && state == firstKey || c == ']' && state == firstValue {
				i, depth, state = i+1, depth-1, after
				continue
			}
		}
		if state == key || state == firstKey {
			if c != '"' {
				return false
			}
			if i = skipText(b, i+1); i < 0 {
				return false
			}
			if i = skipSpace(b, i); i == len(b) || b[i] != ':' {
				return false
			}
			i, state = i+1, value
			continue
		}
		state = after
		switch {
		case c == '"':
			i = skipText(b, i+1)
		case c == '{' || c == '[':
			if depth == maxNesting {
				return false
			}
			bit := uint64(1) << (uint(depth) & 63)
			if state = firstValue; c == '{' {
				state = firstKey
				objects[depth>>6] |= bit
			} else {
				objects[depth>>6] &^= bit
			}
			depth++
			i++
		case c == '-' || c >= '0' && c <= '9':
			i = skipNumber(b, i)
		case c == 't':
			i = skipWord(b, i, "true")
		case c == 'f':
			i = skipWord(b, i, "false")
		case c == 'n':
			i = skipWord(b, i, "null")
		default:
			return false
		}
		if i < 0 {
			return false
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func skipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// skipText goes from behind the first quote to behind the last one; -1 when the text
// is not valid. It looks at eight bytes at a time for one that is special: a quote, a
// backslash or a control character.
func skipText(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^ones*'"', w^ones*'\\'
			// The lowest bit that is set is exact; those above it may be carried over.
			special := (w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash
			if special &= highs; special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c != '\\':
			i++ // near the end
		default:
			if i = skipEscape(b, i+1); i < 0 {
				return -1
			}
		}
	}
}

func skipEscape(b []byte, i int) int {
	if i == len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if len(b)-i < 5 {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

func skipNumber(b []byte, i int) int {
	digits := func() bool {
		from := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i++; !digits() {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}
