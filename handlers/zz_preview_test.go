package handlers_test

import (
	"net/http"
	"os"
	"testing"
	"time"
	"strconv"
)

func TestZZPreview(t *testing.T) {
	if os.Getenv("PREVIEW") == "" { t.Skip() }
	s := newSite(t)
	for i := range 30 { s.spend("acme", "a"+strconv.Itoa(i), "b"+strconv.Itoa(i)); s.now = s.now.Add(-17*time.Hour) }
	s.now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	s.spend("globex", "g1", "g2", "g3")
	s.must(os.WriteFile("/tmp/c3b/url", []byte(s.url+" "+s.tenants["acme"].ID), 0o600))
	_ = http.StatusOK
	time.Sleep(100*time.Second)
}
