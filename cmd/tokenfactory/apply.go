package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goccy/go-yaml"
)

type applyCommand struct {
	File   string `short:"f" help:"YAML file with documents {kind, name, spec}; - reads standard input." required:""`
	Server string `help:"Address of the factory." required:"" env:"TOKENFACTORY_SERVER"`
	Token  string `help:"Management token." required:"" env:"TOKENFACTORY_TOKEN"`
	JSON   bool   `help:"Print the results as JSON."`
}

// document is one thing that should exist, as apply sends it.
type document struct {
	Kind string `json:"kind" yaml:"kind"`
	Name string `json:"name" yaml:"name"`
	Spec any    `json:"spec" yaml:"spec"`
}

// applied is what became of one document.
type applied struct {
	Kind    string            `json:"kind"`
	Name    string            `json:"name"`
	Result  string            `json:"result"`
	Secrets map[string]string `json:"secrets,omitempty"`
}

func (c *applyCommand) Run(ctx context.Context) error {
	var text []byte
	var err error
	if c.File == "-" {
		text, err = io.ReadAll(os.Stdin)
	} else {
		text, err = os.ReadFile(c.File)
	}
	if err != nil {
		return fmt.Errorf("read documents: %w", err)
	}
	docs, err := readDocuments(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	results, err := postDocuments(ctx, c.Server, c.Token, docs)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"results": results})
	}
	printResults(os.Stdout, results)
	return nil
}

// readDocuments reads YAML documents strictly: an unknown key beside kind, name
// and spec is an error here, unknown keys inside spec are the server's to refuse.
func readDocuments(text []byte) ([]document, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	var docs []document
	for {
		var d document
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if d == (document{}) {
			continue // only comments between two separators
		}
		if d.Spec == nil {
			d.Spec = map[string]any{}
		}
		docs = append(docs, d)
	}
	if len(docs) == 0 {
		return nil, errors.New("there is no document in it")
	}
	return docs, nil
}

func postDocuments(ctx context.Context, server, token string, docs []document) ([]applied, error) {
	if u, err := url.Parse(server); err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
		return nil, fmt.Errorf("%q is no address of a factory; write one such as http://localhost:8080", server)
	}
	body, err := json.Marshal(map[string]any{"documents": docs})
	if err != nil {
		return nil, fmt.Errorf("encode documents: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(server, "/")+"/api/v1/apply", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach the factory: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp.Status, answer)
	}
	var out struct {
		Results []applied `json:"results"`
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, fmt.Errorf("understand the answer: %w", err)
	}
	return out.Results, nil
}

// refusal is what the factory said against the list; its sentence names the
// document and the fields.
func refusal(status string, body []byte) error {
	var b struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(body, &b) != nil || b.Error.Message == "" {
		return fmt.Errorf("the factory answered %s", status)
	}
	return errors.New(b.Error.Message)
}

func printResults(w io.Writer, results []applied) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range results {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", r.Result, r.Kind, r.Name)
	}
	tw.Flush()
	for _, r := range results {
		names := make([]string, 0, len(r.Secrets))
		for name := range r.Secrets {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			what := strings.ReplaceAll(name, "_", " ") + " of " + r.Kind
			if name == r.Kind {
				what = r.Kind
			}
			fmt.Fprintf(w, "\n%s %s, shown this once:\n  %s\n", what, r.Name, r.Secrets[name])
		}
	}
}
