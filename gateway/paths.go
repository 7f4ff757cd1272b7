package gateway

import (
	"net/http"

	"github.com/tidwall/gjson"
)

// notOffered answers quickly and cleanly: clients try a newer path first and fall
// back on this status.
func notOffered(model, path string) *problem {
	return &problem{status: http.StatusNotFound, kind: typeInvalid, code: codeURL,
		message: "The model " + quote(model) + " is not served at " + path + ": its engine does not offer that. Use another path or another model."}
}

// unoffered reports whether an engine's refusal says that it has nothing at the
// path: servers say so in HTML, in plain text or in JSON of their framework. An
// error about a model is in the engine's own envelope.
func unoffered(status int, body []byte) bool {
	switch status {
	case http.StatusNotImplemented:
		return true
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		if !validJSON(body) {
			return true
		}
		_, worded := readFailure(gjson.ParseBytes(body))
		return !worded
	}
	return false
}
