// Package static is what the browser downloads, embedded. The files are made by
// build.mjs; a checkout without them compiles, and Check says so at start-up.
package static

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:vendor
var files embed.FS

// Prefix is where the files are served.
const Prefix = "/static/"

// needed are the files that pages refer to, by their plain names.
var needed = []string{"app.css", "app.js", "htmx.js", "charts.js", "icon.svg"}

// manifest maps plain names to file names with a hash of the content in them.
var manifest = sync.OnceValues(func() (map[string]string, error) {
	b, err := files.ReadFile("vendor/manifest.json")
	if err != nil {
		return nil, err
	}
	var m map[string]string
	return m, json.Unmarshal(b, &m)
})

// Check reports when the binary was built without its assets.
func Check() error {
	m, err := manifest()
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("this binary was built without its assets: run make assets, then build again")
	}
	if err != nil {
		return fmt.Errorf("read the assets' manifest: %w; run make assets, then build again", err)
	}
	for _, name := range needed {
		if _, err := fs.Stat(files, "vendor/"+m[name]); m[name] == "" || err != nil {
			return fmt.Errorf("this binary was built without %s: run make assets, then build again", name)
		}
	}
	return nil
}

// URL is where a file is served, by its plain name.
func URL(name string) string {
	m, _ := manifest()
	if hashed := m[name]; hashed != "" {
		return Prefix + hashed
	}
	return Prefix + name
}

var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

// Handler serves the files under Prefix. A name with a hash never changes its
// content, so browsers may keep it for good.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Only GET and HEAD are answered here.", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	contentType, known := contentTypes[path.Ext(name)]
	if !known || strings.Contains(name, "/") {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	body, encoding, err := read("vendor/"+name, r.Header.Get("Accept-Encoding"))
	if err != nil {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	if hashed(name) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "public, max-age=3600")
	}
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client has gone; nobody is left to be told
	}
}

// read finds the smallest form of a file that the client takes.
func read(name, accepts string) (body []byte, encoding string, err error) {
	for _, c := range []struct{ encoding, suffix string }{{"br", ".br"}, {"gzip", ".gz"}} {
		if !takes(accepts, c.encoding) {
			continue
		}
		if body, err = files.ReadFile(name + c.suffix); err == nil {
			return body, c.encoding, nil
		}
	}
	body, err = files.ReadFile(name)
	return body, "", err
}

// takes reports whether an Accept-Encoding header names an encoding and does not
// refuse it with a quality of zero.
func takes(accepts, encoding string) bool {
	for part := range strings.SplitSeq(accepts, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), encoding) {
			continue
		}
		value, isQuality := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
		if !isQuality {
			return true
		}
		quality, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return err == nil && quality > 0
	}
	return false
}

func hashed(name string) bool {
	m, _ := manifest()
	for _, h := range m {
		if h == name {
			return true
		}
	}
	return false
}
