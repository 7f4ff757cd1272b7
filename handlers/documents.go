package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/web/session"
)

// Documents takes what scripts write about nouns: the same fields and rules as
// the forms, any number at once, all of them or none.
type Documents struct {
	Store *store.Store
	Apply *Apply
	Poke  func() // tells the controller that there is something to do
}

// maxDocuments bounds the body; a document is a few hundred bytes.
const maxDocuments = 4 << 20

type document struct {
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Spec json.RawMessage `json:"spec"`
}

type documentResult struct {
	Kind    string            `json:"kind"`
	Name    string            `json:"name"`
	Result  string            `json:"result"`
	Secrets map[string]string `json:"secrets,omitempty"`
}

// documentError is a failure with the document that it belongs to.
type documentError struct {
	kind, name string
	err        error
}

func (e *documentError) Error() string { return e.kind + " “" + e.name + "”: " + e.err.Error() }
func (e *documentError) Unwrap() error { return e.err }

// Post applies {"documents": [{"kind", "name", "spec"}]} in one transaction.
func (h *Documents) Post(c echo.Context) error {
	person := session.Person(c)
	if person.TenantScope != "" || !person.Management && !person.User.Operator {
		return factory.Errorf(factory.Forbidden, "Applying documents takes an operator or a management token of the whole factory.")
	}
	docs, err := readDocuments(c.Request().Body)
	if err != nil {
		return answerDocumentError(c, err)
	}
	by := person.User.Email
	if by == "" {
		by = "management token"
	}
	results := make([]documentResult, len(docs))
	err = h.Store.InTx(c.Request().Context(), func(tx *store.Store) error {
		for _, i := range inOrder(docs) {
			d := docs[i]
			result, err := h.Apply.document(c.Request().Context(), tx, by, d)
			if err != nil {
				return &documentError{d.Kind, d.Name, err}
			}
			results[i] = documentResult{d.Kind, d.Name, result.Outcome, result.Secrets}
		}
		return nil
	})
	if err != nil {
		return answerDocumentError(c, err)
	}
	if h.Poke != nil {
		h.Poke()
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusOK, map[string]any{"results": results})
}

func readDocuments(body io.Reader) ([]document, error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxDocuments+1))
	if err != nil {
		return nil, factory.Errorf(factory.Invalid, "The body ended early. Send it again.")
	}
	if len(raw) > maxDocuments {
		return nil, factory.Errorf(factory.TooLarge, "The documents are larger than 4 MiB together. Apply them in several parts.")
	}
	var in struct {
		Documents []document `json:"documents"`
	}
	if err := decodeStrictly(raw, &in, "a request has documents, and a document has kind, name and spec"); err != nil {
		return nil, err
	}
	if len(in.Documents) == 0 {
		return nil, factory.Errorf(factory.Invalid, "There is no document to apply. Send {\"documents\": [{\"kind\", \"name\", \"spec\"}]}.")
	}
	return in.Documents, nil
}

// documentKinds in the order in which they lean on each other, so that the order in a
// file does not matter.
var documentKinds = []string{"cluster", "provider", "tenant", "endpoint", "model", "deployment", "alias", "member", "key"}

func inOrder(docs []document) []int {
	order := make([]int, len(docs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return slices.Index(documentKinds, docs[a].Kind) - slices.Index(documentKinds, docs[b].Kind)
	})
	return order
}

// document applies one document; by is who is written down as the maker of keys.
func (a *Apply) document(ctx context.Context, tx *store.Store, by string, d document) (Result, error) {
	switch d.Kind {
	case "cluster":
		return applySpec(d, factory.ClusterSpec{}, func(s factory.ClusterSpec) (Result, error) { return a.Cluster(ctx, tx, d.Name, s) })
	case "endpoint":
		return applySpec(d, factory.EndpointSpec{}, func(s factory.EndpointSpec) (Result, error) { return a.Endpoint(ctx, tx, d.Name, s) })
	case "provider":
		return applySpec(d, factory.ProviderSpec{}, func(s factory.ProviderSpec) (Result, error) { return a.Provider(ctx, tx, d.Name, s) })
	case "model":
		return applySpec(d, factory.ModelSpec{}, func(s factory.ModelSpec) (Result, error) { return a.Model(ctx, tx, d.Name, s) })
	case "deployment":
		d.Spec = quoteMoney(d.Spec)
		return applySpec(d, NewDeploymentSpec(), func(s factory.DeploymentSpec) (Result, error) { return a.Deployment(ctx, tx, d.Name, s) })
	case "alias":
		return applySpec(d, factory.AliasSpec{}, func(s factory.AliasSpec) (Result, error) { return a.Alias(ctx, tx, d.Name, s) })
	case "tenant":
		d.Spec = quoteMoney(d.Spec)
		return applySpec(d, factory.TenantSpec{}, func(s factory.TenantSpec) (Result, error) { return a.Tenant(ctx, tx, d.Name, s) })
	case "member":
		return applySpec(d, factory.MemberSpec{Role: factory.Member}, func(s factory.MemberSpec) (Result, error) { return a.Member(ctx, tx, d.Name, s) })
	case "key":
		d.Spec = quoteMoney(d.Spec)
		return applySpec(d, factory.KeySpec{}, func(s factory.KeySpec) (Result, error) { return a.Key(ctx, tx, d.Name, by, s) })
	}
	return Result{}, factory.FieldErrors{"kind": "There is no kind “" + d.Kind + "”. Use one of " + strings.Join(documentKinds, ", ") + "."}
}

// quoteMoney lets prices and budgets be written as numbers, which is what YAML makes
// of 0.15. Their digits are taken as they stand: money is text and never a float.
func quoteMoney(spec []byte) []byte {
	for _, field := range []string{"input_price", "cached_input_price", "output_price", "budget"} {
		if v := gjson.GetBytes(spec, field); v.Type == gjson.Number {
			if quoted, err := sjson.SetBytes(spec, field, v.Raw); err == nil {
				spec = quoted
			}
		}
	}
	return spec
}

// applySpec reads a document's spec over its defaults and hands it on.
func applySpec[S any](d document, spec S, apply func(S) (Result, error)) (Result, error) {
	if len(d.Spec) > 0 {
		if err := decodeStrictly(d.Spec, &spec, "a "+d.Kind+" has "+fieldNames(spec)); err != nil {
			return Result{}, err
		}
	}
	return apply(spec)
}

// decodeStrictly reads JSON into v and refuses fields that v does not have; known
// says which there are. A wrong field comes back under its name.
func decodeStrictly(raw []byte, v any, known string) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil && dec.More() {
		err = errors.New("trailing data")
	}
	if err == nil {
		return nil
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		// Fields that a spec embeds come as Limits.budget, which nobody wrote.
		field := strings.TrimPrefix(wrongType.Field, "Limits.")
		if field == "" {
			field = "spec"
		}
		return factory.FieldErrors{field: "Write " + kindOfValue(wrongType.Type) + " here, not a JSON " + wrongType.Value + "."}
	}
	if _, quoted, ok := strings.Cut(err.Error(), "unknown field "); ok {
		field := strings.Trim(quoted, `"`)
		return factory.FieldErrors{field: "There is no field “" + field + "”: " + known + "."}
	}
	return &factory.Error{Kind: factory.Invalid, Message: "This is not JSON that can be read. Check quotes, commas and brackets.", Err: err}
}

func kindOfValue(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text in quotes"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// fieldNames lists a spec's fields as documents name them.
func fieldNames(spec any) string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(spec)) {
		if !f.Anonymous { // the fields of what is embedded are its own
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "no fields"
	}
	return strings.Join(names, ", ")
}

// answerDocumentError says which document was refused and why. Failures of our own
// go to the one place that logs them.
func answerDocumentError(c echo.Context, err error) error {
	kind := factory.KindOf(err)
	if kind == factory.Internal {
		return err
	}
	body := map[string]any{"kind": kind, "message": "Nothing was changed. " + factory.MessageOf(err)}
	var at *documentError
	if errors.As(err, &at) {
		body["document"] = map[string]string{"kind": at.kind, "name": at.name}
		body["message"] = "Nothing was changed: " + at.kind + " “" + at.name + "” was refused. " + factory.MessageOf(at.err)
	}
	status := kind.Status()
	var fields factory.FieldErrors
	if errors.As(err, &fields) {
		body["fields"] = fields
		status = http.StatusUnprocessableEntity
	}
	return c.JSON(status, map[string]any{"error": body})
}
