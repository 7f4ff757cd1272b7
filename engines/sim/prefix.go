package sim

import "container/list"

// prefixCache remembers the blocks of prompts that were computed, by a hash that
// chains each block to those before it, and forgets the least recently used.
type prefixCache struct {
	most   int
	order  *list.List // of hashes, most recently used first
	blocks map[uint64]*list.Element
}

func newPrefixCache(most int) prefixCache {
	return prefixCache{most: most, order: list.New(), blocks: map[uint64]*list.Element{}}
}

// bytesPerToken is the usual rule of thumb for English text.
const bytesPerToken = 4

// chain hashes the full blocks of a text, each with all before it.
func chain(text string, blockTokens int) []uint64 {
	size := blockTokens * bytesPerToken
	hashes := make([]uint64, 0, len(text)/size)
	h := uint64(fnvOffset)
	for len(text) >= size {
		h = hash(h, text[:size])
		hashes = append(hashes, h)
		text = text[size:]
	}
	return hashes
}

// FNV-1a, which unlike the library's can be continued and does not allocate.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func hash(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// lookup counts how many of the first blocks are there.
func (c *prefixCache) lookup(hashes []uint64) int {
	for i, h := range hashes {
		at, ok := c.blocks[h]
		if !ok {
			return i
		}
		c.order.MoveToFront(at)
	}
	return len(hashes)
}

func (c *prefixCache) add(hashes []uint64) {
	for _, h := range hashes {
		if at, ok := c.blocks[h]; ok {
			c.order.MoveToFront(at)
			continue
		}
		c.blocks[h] = c.order.PushFront(h)
		if c.order.Len() > c.most {
			oldest := c.order.Back()
			c.order.Remove(oldest)
			delete(c.blocks, oldest.Value.(uint64))
		}
	}
}
