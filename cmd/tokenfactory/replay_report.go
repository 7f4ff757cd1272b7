package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// replayReport is what is printed and written to a file.
type replayReport struct {
	comparison
	Target, Model, Load string
	Tolerance           float64
	Began, Ended        time.Time
	Compared            bool // there was a console to compare with
}

func (r replayReport) Verdict() string {
	switch {
	case !r.Compared && r.Seen.Whole == 0:
		return "No request was answered."
	case !r.Compared:
		return "Measured as a client; nothing to compare with, as no console was given."
	case r.Agrees && r.Hidden:
		return fmt.Sprintf("Client, gateway and dashboard agree: latencies within %g %%, tokens and requests exactly. The engine's own figures do not explain what users wait.", 100*r.Tolerance)
	case r.Agrees:
		return fmt.Sprintf("Everything agrees: latencies within %g %%, tokens and requests exactly.", 100*r.Tolerance)
	}
	return fmt.Sprintf("The figures do not agree; findings: %d.", len(r.Findings))
}

func (r replayReport) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s, %s, %d requests in %s\n\n", r.Model, r.Load, r.Seen.Sent, r.Ended.Sub(r.Began).Round(100*time.Millisecond))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "metric\tclient\tgateway\tdashboard\tengine\tdifference\t\t")
	for _, row := range r.Rows {
		verdict := ""
		switch {
		case row.Failed:
			verdict = "✗"
		case row.Judged && r.Compared:
			verdict = "✓"
		}
		fmt.Fprintln(tw, strings.Join([]string{row.Metric, row.Client, row.Gateway, row.Dashboard, row.Engine, row.Difference, verdict, ""}, "\t"))
	}
	tw.Flush()
	fmt.Fprintln(w)
	for _, s := range r.Notes {
		fmt.Fprintln(w, s)
	}
	for _, s := range r.Findings {
		fmt.Fprintln(w, "✗ "+s)
	}
	fmt.Fprintln(w, r.Verdict())
}

//go:embed replay_report.html
var replayHTML string

var replayTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"moment": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
}).Parse(replayHTML))

func (r replayReport) writeHTML(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := replayTemplate.Execute(f, r); err != nil {
		f.Close()
		return fmt.Errorf("write the report: %w", err)
	}
	return f.Close()
}
