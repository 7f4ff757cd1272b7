package static

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(t *testing.T, method, path, accepts string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Accept-Encoding", accepts)
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestAssetsAreEmbedded(t *testing.T) {
	if err := Check(); err != nil {
		t.Fatal(err)
	}
	for _, name := range needed {
		if u := URL(name); u == Prefix+name {
			t.Errorf("%s has no hash in its address", name)
		}
	}
}

func TestAssetsAreServedCompressedAndKept(t *testing.T) {
	for _, c := range []struct{ name, accepts, encoding, contentType string }{
		{"app.js", "gzip, deflate, br", "br", "text/javascript; charset=utf-8"},
		{"app.js", "gzip, br;q=0", "gzip", "text/javascript; charset=utf-8"},
		{"app.css", "gzip;q=0.5", "gzip", "text/css; charset=utf-8"},
		{"icon.svg", "identity", "", "image/svg+xml"},
	} {
		res := get(t, http.MethodGet, URL(c.name), c.accepts)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != c.encoding || res.Header.Get("Content-Type") != c.contentType {
			t.Errorf("%s for %q: %d, encoding %q, type %q", c.name, c.accepts, res.StatusCode, res.Header.Get("Content-Encoding"), res.Header.Get("Content-Type"))
		}
		if !strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s is not kept: %q", c.name, res.Header.Get("Cache-Control"))
		}
		if res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s does not vary by encoding", c.name)
		}
	}
}

func TestCompressedAssetIsTheSameFile(t *testing.T) {
	plain, err := io.ReadAll(get(t, http.MethodGet, URL("app.css"), "").Body)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(get(t, http.MethodGet, URL("app.css"), "gzip").Body)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(z)
	if err != nil || string(unpacked) != string(plain) || len(plain) == 0 {
		t.Errorf("%d bytes plain, %d unpacked, %v", len(plain), len(unpacked), err)
	}
}

func TestHeadHasTheLengthAndNoBody(t *testing.T) {
	res := get(t, http.MethodHead, URL("htmx.js"), "")
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK || len(body) != 0 || res.Header.Get("Content-Length") == "0" {
		t.Errorf("%d, %d bytes, length %q", res.StatusCode, len(body), res.Header.Get("Content-Length"))
	}
}

func TestOnlyAssetsAreServed(t *testing.T) {
	for path, want := range map[string]int{
		"/static/manifest.json":       http.StatusNotFound,
		"/static/../static.go":        http.StatusNotFound,
		"/static/":                    http.StatusNotFound,
		"/static/nothing.js":          http.StatusNotFound,
		"/static/charts.js.LEGAL.txt": http.StatusOK,
	} {
		if got := get(t, http.MethodGet, path, "").StatusCode; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := get(t, http.MethodPost, URL("app.js"), "").StatusCode; got != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", got)
	}
}
