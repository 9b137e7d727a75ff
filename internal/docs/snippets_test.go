package docs_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/docs"
)

const module = "github.com/gormflake/gormflake"

// prelude is what snippets may use without declaring it.
const prelude = `
var (
	ctx   context.Context
	db    *gorm.DB
	flake *gormflake.Plugin
	dsn   string
	err   error
	from, to, day, t time.Time
	plan *migrate.BoolPlan
)
`

// imports are the packages that snippets use by their names.
var imports = []string{
	"bytes", "context", "database/sql", "encoding/json", "errors", "flag", "fmt", "log", "log/slog", "math", "net/http",
	"os", "os/signal", "strconv", "strings", "sync", "syscall", "testing", "time",
	"gorm.io/gorm", "gorm.io/gorm/clause", "gorm.io/gorm/schema", "gorm.io/gorm/logger",
	"gorm.io/driver/mysql", "gorm.io/driver/postgres", "github.com/glebarez/sqlite",
	"github.com/redis/go-redis/v9", "github.com/prometheus/client_golang/prometheus",
	"github.com/prometheus/client_golang/prometheus/promhttp", "gorm.io/plugin/dbresolver",
	module, module + "/generator", module + "/generator/lease", module + "/generator/lease/sqllease",
	module + "/generator/lease/redislease", module + "/generator/lease/leasetest",
	module + "/migrate", module + "/metrics",
}

// TestEverySnippetCompiles type-checks every Go block of every page. A block
// is a whole file, or declarations, or statements, or declarations among
// statements; it sees the declarations of the page's earlier blocks.
func TestEverySnippetCompiles(t *testing.T) {
	root, texts := pages(t)
	load := packages(t, root)
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			var earlier []string
			for _, block := range docs.Blocks(text) {
				if block.Language != "go" {
					continue
				}
				source := block.Text
				if !strings.Contains("\n"+source, "\npackage ") {
					declarations, statements := split(source)
					source = file(earlier, declarations, statements)
					earlier = append(earlier, declarations...)
				}
				for _, err := range check(source, load) {
					t.Errorf("%s, the block at line %d: %v\n%s", name, block.Line, err, block.Text)
				}
			}
		})
	}
}

func TestAWrongSnippetIsCaught(t *testing.T) {
	root, err := docs.Root()
	if err != nil {
		t.Fatal(err)
	}
	load := packages(t, root)
	for _, c := range []struct {
		name, block string
		wrong       bool
	}{
		{"unused variable", "n := 1\n", false},
		{"declarations among statements", "type T struct {\n\tA int\n}\n\nvar v T\nv.A = 1\n", false},
		{"a method", "func (T) Name() string { return \"\" }\ntype T struct{}\n", false},
		{"unknown name", "nobody()\n", true},
		{"unknown method", "db.Nobody()\n", true},
		{"wrong type", "var n int = \"one\"\n", true},
		{"no Go", "this is no Go\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			declarations, statements := split(c.block)
			if problems := check(file(nil, declarations, statements), load); c.wrong != (len(problems) > 0) {
				t.Errorf("want wrong %v, got %v", c.wrong, problems)
			}
		})
	}
}

var declaration = regexp.MustCompile(`^(type|func|const|var)\s+(?:\([^)]*\)\s*)?(\w+|\()`)

// split parts top-level declarations of types and functions from statements.
func split(source string) (declarations []string, statements string) {
	lines := strings.SplitAfter(source, "\n")
	for i := 0; i < len(lines); i++ {
		m := declaration.FindStringSubmatch(lines[i])
		if m == nil || m[1] == "var" || m[1] == "const" || strings.HasPrefix(lines[i], "func(") {
			statements += lines[i]
			continue
		}
		chunk := lines[i]
		opened := strings.TrimSpace(lines[i])
		if strings.HasSuffix(opened, "{") || strings.HasSuffix(opened, "(") {
			for i+1 < len(lines) {
				i++
				chunk += lines[i]
				if strings.HasPrefix(lines[i], "}") || strings.HasPrefix(lines[i], ")") {
					break
				}
			}
		}
		declarations = append(declarations, chunk)
	}
	return declarations, statements
}

// declared names what a chunk declares, such as "type Order".
func declared(chunk string) string {
	m := declaration.FindStringSubmatch(chunk)
	return m[1] + " " + receiver(chunk) + m[2]
}

// receiver tells methods of one name apart.
func receiver(chunk string) string {
	if rest, ok := strings.CutPrefix(chunk, "func ("); ok {
		return strings.SplitN(rest, ")", 2)[0] + "."
	}
	return ""
}

// file puts a block into a file: its statements into a function, and what
// earlier blocks have declared, unless it declares that again.
func file(earlier, declarations []string, statements string) string {
	var out strings.Builder
	out.WriteString("package snippet\n\nimport (\n")
	for _, path := range imports {
		fmt.Fprintf(&out, "\t%q\n", path)
	}
	out.WriteString(")\n" + prelude)
	seen := map[string]bool{}
	for _, chunk := range slices.Backward(slices.Concat(earlier, declarations)) {
		if name := declared(chunk); !seen[name] {
			seen[name] = true
			out.WriteString(chunk + "\n")
		}
	}
	// A result of any kind may be returned.
	fmt.Fprintf(&out, "func snippet() (_ error) {\n%s\nreturn\n}\n", statements)
	return out.String()
}

// check returns what the compiler would refuse, but for unused names: a
// snippet shows a thing, it needn't use it.
func check(source string, load types.Importer) []error {
	fileSet := token.NewFileSet()
	parsed, err := parser.ParseFile(fileSet, "snippet.go", source, parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	var problems []error
	config := types.Config{Importer: load, Error: func(err error) {
		var detail types.Error
		if errors.As(err, &detail) && detail.Soft {
			return
		}
		problems = append(problems, err)
	}}
	_, _ = config.Check("snippet", fileSet, []*ast.File{parsed}, nil)
	return problems
}

// packages returns an importer of the compiled packages that snippets import.
func packages(t *testing.T, root string) types.Importer {
	t.Helper()
	arguments := append([]string{"list", "-e", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}}={{.Export}}{{end}}"}, imports...)
	command := exec.Command("go", arguments...)
	command.Dir = root
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, problems.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		file, ok := files[path]
		if !ok {
			return nil, fmt.Errorf("no package %s among the snippets' imports %v", path, problems.String())
		}
		return os.Open(file)
	})
}
