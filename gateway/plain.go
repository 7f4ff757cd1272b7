package gateway

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unsafe"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

var errAnswerTooLong = errors.New("the engine's answer is longer than 64 MiB")

// plain gives an answer that is not streamed to the client. It is read whole
// first: its usage has to be kept before its last byte leaves.
func (x *exchange) plain(c *call, l *lease, resp *http.Response, from io.Reader) (verdict, *problem) {
	body, err := readAnswer(from, resp.ContentLength)
	if err != nil {
		if errors.Is(err, errAnswerTooLong) {
			p := upstreamFailed()
			p.message = "The engine's answer is too long. Ask for less at once."
			x.settle(p.status, factory.FlagFailed)
			x.refuse(p)
			return answered, nil
		}
		c.reused = false // it answered: the connection was not stale
		return x.callFailed(c, l, err)
	}
	l.restore()
	if x.gone() {
		return left, nil
	}
	x.engines += time.Since(c.sent)
	if x.started {
		// A client that was told to expect events has no use for it.
		x.settle(http.StatusOK, factory.FlagFailed)
		x.refuse(upstreamFailed())
		return answered, nil
	}
	x.outgoing, x.request.body = nil, nil
	body, failed := x.readPlain(body)

	h := x.w.Header()
	kind := resp.Header.Get("Content-Type")
	if kind == "" {
		kind = "application/json"
	}
	h["Content-Type"] = []string{kind}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.queueHeader(h)
	x.overheadHeader(h, time.Since(x.begun)-x.engines-x.queued)
	flag := ""
	if failed {
		flag = factory.FlagFailed
	}
	x.settle(http.StatusOK, flag)
	x.started = true
	x.w.WriteHeader(http.StatusOK)
	if err := x.write(body); err != nil || failed {
		return answered, nil
	}
	now := time.Now()
	x.observe(now, metrics.E2E, inMilliseconds(now.Sub(x.begun)), 1)
	return answered, nil
}

// readPlain takes usage from an answer and puts the asked name into it.
func (x *exchange) readPlain(body []byte) (out []byte, failed bool) {
	doc := gjson.Result{Type: gjson.JSON, Raw: unsafe.String(unsafe.SliceData(body), len(body))}
	var c chunk
	doc.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "usage":
			if value.IsObject() {
				c.usage, c.hasUsage = readUsage(value), true
			}
		case "timings":
			if value.IsObject() {
				c.timings, c.hasTimings = readTimings(value), true
			}
		case "model":
			if value.Type == gjson.String && value.Str != x.name {
				c.add(edit{span{value.Index, value.Index + len(value.Raw)}, x.nameJSON})
			}
		case "error":
			failed = value.Type != gjson.Null
		case "meta":
			if !c.hasUsage {
				c.usage, c.hasUsage = readMeta(value)
			}
		case "choices", "data", "results":
			c.choices = -1 // there is an answer
		}
		return true
	})
	if doc.IsArray() {
		c.usage, c.hasUsage = readScores(doc)
	}
	failed = failed && c.choices == 0
	c.choices = 0
	x.meter.take(&c)
	if c.n > 0 {
		body = splice(nil, body, c.edits[:c.n], "")
	}
	return body, failed
}

// readMeta reads the usage of answers in the manner of Cohere.
func readMeta(meta gjson.Result) (counts, bool) {
	for _, at := range [...]string{"tokens", "billed_units"} {
		if u := meta.Get(at); u.Get("input_tokens").Exists() {
			return readUsage(u), true
		}
	}
	return counts{}, false
}

// readScores adds up the usage of a bare list of scores, as SGLang answers a rerank.
func readScores(list gjson.Result) (counts, bool) {
	var c counts
	some := false
	list.ForEach(func(_, score gjson.Result) bool {
		if n := score.Get("meta_info.prompt_tokens"); n.Type == gjson.Number {
			c.prompt, some = c.prompt+n.Int(), true
		}
		return true
	})
	return c.sane(), some
}

func readAnswer(from io.Reader, announced int64) ([]byte, error) {
	size := int64(4 << 10)
	if announced > 0 {
		size = min(announced+1, 1<<20)
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > maxAnswer:
			return nil, errAnswerTooLong
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}
