package sim

import (
	"encoding/json"
	"net/http"
)

// problem is a refusal in the shape that vLLM answers with.
type problem struct {
	status  int
	kind    string
	param   string
	message string
}

func badRequest(param, message string) *problem {
	return &problem{http.StatusBadRequest, "BadRequestError", param, message}
}

func refuse(w http.ResponseWriter, p *problem) {
	var param *string
	if p.param != "" {
		param = &p.param
	}
	writeJSON(w, p.status, map[string]any{"error": map[string]any{
		"message": p.message, "type": p.kind, "param": param, "code": p.status,
	}})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may have left; there is nobody to tell.
	_ = json.NewEncoder(w).Encode(body)
}
