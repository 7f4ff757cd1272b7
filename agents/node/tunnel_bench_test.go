package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ways are how an engine is reached: without the tunnel, and through it.
func ways(b *testing.B) (url string, ways map[string]http.RoundTripper) {
	b.Helper()
	engine := httptest.NewServer(http.HandlerFunc(rhythm))
	b.Cleanup(engine.Close)
	through := tunnelTo(b, engine.URL)
	return engine.URL, map[string]http.RoundTripper{
		"direct": &http.Transport{MaxIdleConnsPerHost: 4096},
		"tunnel": &http.Transport{MaxIdleConnsPerHost: 4096, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return through(ctx) }},
	}
}

// rhythm answers so many events, each with the time at which it was said.
func rhythm(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	events, _ := strconv.Atoi(r.FormValue("events"))
	every, _ := time.ParseDuration(r.FormValue("every"))
	w.Header().Set("Content-Type", "text/event-stream")
	for due := time.Now(); events > 0; events-- {
		due = due.Add(every)
		time.Sleep(time.Until(due))
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]} %d\n\n", strings.Repeat("x", 100), time.Now().UnixNano())
		_ = http.NewResponseController(w).Flush()
	}
}

// listen returns how long after it was said each event came.
func listen(b *testing.B, over http.RoundTripper, url string) (delays []time.Duration) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(strings.Repeat("x", 2000)))
	if err != nil {
		b.Error(err)
		return nil
	}
	resp, err := over.RoundTrip(req)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if _, at, ok := strings.Cut(lines.Text(), "} "); ok {
			said, _ := strconv.ParseInt(at, 10, 64)
			delays = append(delays, time.Since(time.Unix(0, said)))
		}
	}
	if lines.Err() != nil {
		b.Error(lines.Err())
	}
	return delays
}

// BenchmarkFirstEvent is one request after another: the difference is what the
// tunnel adds to TTFT.
func BenchmarkFirstEvent(b *testing.B) {
	url, ways := ways(b)
	for _, way := range []string{"direct", "tunnel"} {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				listen(b, ways[way], url+"?events=1")
			}
		})
	}
}

// BenchmarkStreams is 500 answers at once, of 64 events every 20 ms. CPU is that of
// the client, the tunnel and the engine together.
func BenchmarkStreams(b *testing.B) {
	const streams = 500
	url, ways := ways(b)
	for _, way := range []string{"direct", "tunnel"} {
		b.Run(way, func(b *testing.B) {
			var mu sync.Mutex
			var delays []time.Duration
			began := cpu()
			answers := 0
			for b.Loop() {
				var all sync.WaitGroup
				for range streams {
					all.Go(func() {
						got := listen(b, ways[way], url+"?events=64&every=20ms")
						mu.Lock()
						defer mu.Unlock()
						delays = append(delays, got...)
					})
					time.Sleep(2 * time.Millisecond)
				}
				all.Wait()
				answers += streams
			}
			slices.Sort(delays)
			b.ReportMetric((cpu()-began).Seconds()*1000/float64(answers), "cpu-s/1000")
			b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), "p99-µs")
		})
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
