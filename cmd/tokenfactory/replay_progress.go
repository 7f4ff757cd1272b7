package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// showProgress writes how far a replay is until the function that it returns is called:
// a bar that stays in its line on a terminal, a line now and then elsewhere.
func showProgress(w *os.File, counts *replayCounts) func() {
	info, err := w.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	every := 10 * time.Second
	if terminal {
		every = 200 * time.Millisecond
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				if terminal {
					fmt.Fprintf(w, "\r%s\n", counts.line(true))
				}
				return
			case <-tick.C:
				if terminal {
					fmt.Fprintf(w, "\r%s", counts.line(true))
				} else {
					fmt.Fprintln(w, counts.line(false))
				}
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

func (c *replayCounts) line(bar bool) string {
	sent, done, failed := c.sent.Load(), c.done.Load(), c.failed.Load()
	text := fmt.Sprintf("%d of %d answered, %d under way, %d failed", done-failed, c.all, sent-done, failed)
	if !bar {
		return text
	}
	const width = 30
	full := 0
	if c.all > 0 {
		full = int(done) * width / c.all
	}
	return "[" + strings.Repeat("█", full) + strings.Repeat("·", width-full) + "] " + text + "   "
}
