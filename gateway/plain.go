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
func (x *exchange) plain(c *call, resp *http.Response, from io.Reader) (verdict, *problem) {
	body, err := readAnswer(from, resp.ContentLength)
	if err != nil {
		if errors.Is(err, errAnswerTooLong) {
			x.engines += time.Since(c.sent)
			p := upstreamFailed()
			p.message = "The engine's answer is too long. Ask for less at once."
			x.settle(p.status, factory.FlagFailed)
			x.refuse(p)
			return answered, nil
		}
		c.reused = false // it answered: the connection was not stale
		return x.callFailed(c, &lease{replica: x.replica}, err)
	}
	if x.gone() {
		return left, nil
	}
	x.engines += time.Since(c.sent)
	x.outgoing, x.request.body = nil, nil
	body, failed := x.readPlain(body)

	h := x.w.Header()
	kind := resp.Header.Get("Content-Type")
	if kind == "" {
		kind = "application/json"
	}
	h["Content-Type"] = []string{kind}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	overhead := time.Since(x.begun) - x.engines
	h["X-Tokenfactory-Overhead-Ms"] = []string{strconv.FormatFloat(inMilliseconds(overhead), 'f', 3, 64)}
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
			if value.Type == gjson.String && value.Str != x.route.name {
				c.add(edit{span{value.Index, value.Index + len(value.Raw)}, x.route.nameJSON})
			}
		case "error":
			failed = value.Type != gjson.Null
		case "choices", "data":
			c.choices = -1 // there is an answer
		}
		return true
	})
	failed = failed && c.choices == 0
	c.choices = 0
	x.meter.take(&c)
	if c.n > 0 {
		body = splice(nil, body, c.edits[:c.n], "")
	}
	return body, failed
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
