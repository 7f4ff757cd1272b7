package engines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxPage bounds what is read: real pages have 40 to 60 KB.
const maxPage = 8 << 20

// maxMisplaced bounds how often a page is parsed again because of a line that is
// wrong only where it stands.
const maxMisplaced = 20

// maxErrors is where a page with errors is taken for something else.
const maxErrors = 1000

func parse(r io.Reader) (page, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxPage+1))
	if err != nil {
		return page{}, fmt.Errorf("read metrics page: %w", err)
	}
	if len(body) > maxPage {
		return page{}, fmt.Errorf("metrics page is larger than %d MiB", maxPage>>20)
	}
	return parsePage(body)
}

func parsePage(body []byte) (page, error) {
	text, p := newText(body), page{damaged: map[string]bool{}}
	// A page that ends inside a line was cut off: the number there may lack digits.
	if last := len(text.lines) - 1; last >= 0 && !bytes.HasSuffix(body, []byte("\n")) {
		if text.sample(last) {
			p.partial = true
			if before := text.sampleBefore(last); before >= 0 {
				p.damage(text.family(before)) // it may go on in what is missing
			}
			p.lose(text, last)
		}
	}
	families, err := parseLines(text.body())
	if err != nil {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		for i, line := range text.lines {
			if len(line) == 0 || parsesAlone(&parser, line) {
				continue
			}
			if p.lose(text, i); p.errors > maxErrors {
				return page{}, fmt.Errorf("this is no metrics page: more than %d lines cannot be read, the first being %q", maxErrors, p.first[0].Text)
			}
			parser = expfmt.NewTextParser(model.UTF8Validation)
		}
		families, err = parseLines(text.body())
	}
	// What is left is wrong only among others, such as a second HELP line of a family.
	for range maxMisplaced {
		var at expfmt.ParseError
		if err == nil || !errors.As(err, &at) || at.Line < 1 || at.Line > len(text.lines) || len(text.lines[at.Line-1]) == 0 {
			break
		}
		p.lose(text, at.Line-1)
		families, err = parseLines(text.body())
	}
	if err != nil {
		return page{}, err
	}
	p.families = families
	for i := range text.lines {
		if text.sample(i) {
			p.samples++
		}
	}
	if p.samples == 0 && p.errors > 0 {
		return page{}, fmt.Errorf("this is no metrics page: line %d is %q", p.first[0].Line, p.first[0].Text)
	}
	return p, nil
}

// parsesAlone tries one line. The parser is one that has not failed yet.
func parsesAlone(parser *expfmt.TextParser, line []byte) (good bool) {
	defer func() {
		if recover() != nil {
			good = false
		}
	}()
	_, err := parser.TextToMetricFamilies(io.MultiReader(bytes.NewReader(line), strings.NewReader("\n")))
	return err == nil
}

// parseLines parses a page. The parser panics on some broken lines, and whatever
// answers on an engine's port must not be able to end the agent.
func parseLines(body []byte) (families map[string]*dto.MetricFamily, err error) {
	defer func() {
		if r := recover(); r != nil {
			families, err = nil, fmt.Errorf("parse metrics page: %v", r)
		}
	}()
	// The zero TextParser panics always.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err = parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("parse metrics page: %w", err)
	}
	return families, nil
}

// lose takes a line out, and notes of which family it was.
func (p *page) lose(text text, line int) {
	p.errors++
	if len(p.first) < maxProblems {
		p.first = append(p.first, PageProblem{line + 1, clipped(string(text.lines[line]))})
	}
	switch name := text.family(line); {
	case name != "":
		p.damage(name)
	case text.sample(line):
		p.partial = true
	}
	text.lines[line] = nil // stays in its place, so that numbers stay
}

func (p *page) damage(family string) {
	p.damaged[family] = true
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if whole, part := strings.CutSuffix(family, suffix); part {
			p.damaged[whole] = true
		}
	}
}

// text is a page by lines, without their ends.
type text struct{ lines [][]byte }

func newText(body []byte) text {
	return text{bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))}
}

func (t text) body() []byte { return append(bytes.Join(t.lines, []byte("\n")), '\n') }

func (t text) sample(line int) bool {
	s := bytes.TrimSpace(t.lines[line])
	return len(s) > 0 && s[0] != '#'
}

// sampleBefore is the nearest line above with a sample, -1 when there is none.
func (t text) sampleBefore(line int) int {
	for line--; line >= 0 && !t.sample(line); line-- {
	}
	return line
}

// family is the name that a line begins with, or that a TYPE line is about: without it
// a histogram's samples stand for themselves. Other comments say nothing of figures.
// It is empty when there is no telling.
func (t text) family(line int) string {
	s := string(bytes.TrimSpace(t.lines[line]))
	if rest, comment := strings.CutPrefix(s, "#"); comment {
		about, isType := strings.CutPrefix(strings.TrimSpace(rest), "TYPE ")
		if !isType {
			return ""
		}
		s = strings.TrimSpace(about)
	}
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && r != ':' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	switch {
	case end < 0:
		return s
	case strings.ContainsRune("{ \t", rune(s[end])):
		return s[:end]
	}
	return "" // a name that is damaged itself
}
