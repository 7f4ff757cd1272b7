//go:build linux

package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// serveProxy is what to compare with: the least that a Go program can do between a
// client and an engine. It flushes at once and keeps its connections.
func serveProxy(port, engine int) error {
	to, err := url.Parse(fmt.Sprintf("http://127.0.0.1:%d", engine))
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 4096
	transport.DisableCompression = true
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		Transport:     transport,
	}
	return http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", port), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// This engine is so quick that its answer may overtake the end of the request:
		// without this the server would then close a body that is still being sent on,
		// and some streams would break.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			panic(err)
		}
		proxy.ServeHTTP(w, r)
	}))
}
