package e2e

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "tokenfactory"

// mayImport is the import map of the house. Keys and values are folders; a value
// ending in /... stands for everything below it, and the longest key that fits a
// folder is its rule. A folder without a rule fails: nobody adds one quietly.
var mayImport = map[string][]string{
	"cmd/tokenfactory":       {"..."},
	"cmd/tokenfactory-agent": {"agents", "agents/node", "agents/runtimes/...", "engines", "factory", "metrics"},

	"web":         {"handlers", "static", "store", "web/...", "views/layout", "views/ui", "factory", "metrics"},
	"web/paths":   {},
	"web/session": {"factory", "web/paths"},
	"web/respond": {"views/layout", "views/ui", "web/paths", "web/session", "factory"},
	"handlers":    {"store", "views/...", "web/paths", "web/respond", "web/session", "agents", "factory", "metrics", "engines", "slo", "slo/notify", "billing"},
	"views":       {"views/ui", "views/layout", "views/charts", "views/deployments", "views/limits", "web/paths", "factory", "metrics", "engines", "slo", "billing"},
	"static":      {},

	"store":           {"migrations", "metrics", "factory"},
	"store/storetest": {"store"},
	"migrations":      {},

	"gateway":         {"engines", "metrics", "billing", "factory"},
	"agents":          {"engines", "metrics", "factory"},
	"agents/node":     {"agents", "agents/runtimes/...", "engines", "metrics", "factory"},
	"agents/runtimes": {"engines", "metrics", "factory"},

	"factory":     {},
	"metrics":     {},
	"engines":     {"metrics", "factory"},
	"engines/sim": {"engines", "metrics", "factory"},
	"slo":         {"metrics", "factory"},
	"slo/notify":  {"slo", "metrics", "factory"},
	"billing":     {"factory"},

	"e2e":        {},
	"e2e/bench":  {"..."}, // it runs the parts in its own process, to see what each costs
	"e2e/faults": {"..."}, // a whole factory in one process
}

// mustNotReach names outside packages that a folder must not link, not even
// through others. It holds for what is below the folder too, unless that has a
// rule of its own: slo decides, and slo/notify is its shell.
var mustNotReach = map[string][]string{
	"cmd/tokenfactory-agent": {"github.com/jmoiron/sqlx", "modernc.org/sqlite", "github.com/jackc/pgx", "github.com/a-h/templ", "github.com/labstack/echo"},
	"gateway":                {"github.com/jmoiron/sqlx", "database/sql", "github.com/a-h/templ", "github.com/labstack/echo"},
	"views":                  {"database/sql", "github.com/labstack/echo", "github.com/jmoiron/sqlx"},
	"factory":                {"database/sql", "github.com/"},
	"metrics":                {"database/sql", "github.com/labstack", "github.com/jmoiron"},
	"slo":                    {"database/sql", "net/http"},
	"slo/notify":             {"database/sql", "github.com/jmoiron/sqlx", "github.com/a-h/templ", "github.com/labstack/echo"},
	"billing":                {"database/sql", "net/http"},
}

// The map is kept by reading import lines in this process. Asking the go command
// in a child process would be served stale from the test cache.
func TestImportsPointDownTheMap(t *testing.T) {
	imports := readImports(t, "..")
	for folder, list := range imports {
		allowed, placed := ruleFor(folder)
		if !placed {
			t.Errorf("%s is not on the map: place it in mayImport", folder)
			continue
		}
		for _, imported := range list {
			if inner, ok := strings.CutPrefix(imported, module+"/"); ok && inner != folder && !fits(allowed, inner) {
				t.Errorf("%s must not import %s", folder, inner)
			}
		}
	}
	for folder, banned := range mustNotReach {
		for from := range imports {
			if reachRule(from) != folder {
				continue
			}
			for _, b := range banned {
				if trail := reach(imports, from, b, map[string]bool{}); trail != nil {
					t.Errorf("%s must not reach %s: %s", from, b, strings.Join(trail, " -> "))
				}
			}
		}
	}
}

// The test above is only worth something if it can fail.
func TestTheMapCatchesViolations(t *testing.T) {
	bad := map[string][]string{
		"views/keys": {module + "/store"},
		"gateway":    {module + "/engines"},
		"engines":    {module + "/web", "database/sql"},
	}
	if allowed, _ := ruleFor("views/keys"); fits(allowed, "store") {
		t.Error("views may import store")
	}
	if _, placed := ruleFor("util"); placed {
		t.Error("a new top-level folder passes unplaced")
	}
	if reachRule("slo") != "slo" || reachRule("slo/notify") != "slo/notify" || reachRule("views/keys") != "views" || reachRule("store") != "" {
		t.Error("a folder is not held to the nearest rule above it")
	}
	if reach(bad, "gateway", "database/sql", map[string]bool{}) == nil {
		t.Error("a banned package behind another one is not seen")
	}
}

func ruleFor(folder string) ([]string, bool) {
	for at := folder; at != "."; at = filepath.ToSlash(filepath.Dir(at)) {
		if rule, ok := mayImport[at]; ok {
			return rule, true
		}
	}
	return nil, false
}

// reachRule is the folder whose entry in mustNotReach holds for a folder, or none.
func reachRule(folder string) string {
	for at := folder; at != "."; at = filepath.ToSlash(filepath.Dir(at)) {
		if _, ok := mustNotReach[at]; ok {
			return at
		}
	}
	return ""
}

func fits(allowed []string, folder string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		base, whole := strings.CutSuffix(a, "...")
		return a == folder || whole && strings.HasPrefix(folder+"/", base)
	})
}

// reach returns the trail from one folder to a banned package, or nil.
func reach(imports map[string][]string, from, banned string, seen map[string]bool) []string {
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, imported := range imports[from] {
		if strings.HasPrefix(imported, banned) {
			return []string{from, imported}
		}
		if inner, ok := strings.CutPrefix(imported, module+"/"); ok {
			if trail := reach(imports, inner, banned, seen); trail != nil {
				return append([]string{from}, trail...)
			}
		}
	}
	return nil
}

// readImports maps each folder to what its files import, tests left out.
func readImports(t *testing.T, root string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(out[folder], imported) {
				out[folder] = append(out[folder], imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if out["factory"] == nil || out["cmd/tokenfactory"] == nil {
		t.Fatalf("the test looks at the wrong place: it read %d folders and not the two that are always there", len(out))
	}
	return out
}
