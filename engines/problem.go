package engines

import (
	"fmt"
	"strings"
)

// PageProblem is a line of a metrics page that could not be read.
type PageProblem struct {
	Line int // the first is 1
	Text string
}

const (
	maxProblems    = 5
	maxProblemText = 120 // bytes
)

func clipped(line string) string {
	line = strings.TrimSpace(line)
	end := ""
	if len(line) > maxProblemText {
		line, end = line[:maxProblemText], "…"
	}
	return strings.ToValidUTF8(line, "") + end
}

// Complaint is a sentence about the lines that could not be read; empty when all could.
func (r Reading) Complaint() string {
	if r.ParseErrors == 0 || len(r.Problems) == 0 {
		return ""
	}
	first := r.Problems[0]
	lines := "1 line"
	if r.ParseErrors > 1 {
		lines = fmt.Sprintf("%d lines", r.ParseErrors)
	}
	return fmt.Sprintf("Metrics page: %s could not be read (line %d: %s).", lines, first.Line, first.Text)
}
