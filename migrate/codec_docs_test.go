package migrate

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCodecDocs holds the page's snippets against the examples, which the compiler
// reads, and its list of traps against the tests.
func TestCodecDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/legacy-booleans.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("codec_example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## The codec\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("the page has no section \"The codec\"")
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) < 4 {
		t.Fatalf("the section has %d snippets, expected at least 4", len(blocks))
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for _, block := range blocks {
		if !strings.Contains(squeeze(string(examples)), squeeze(block[1])) {
			t.Errorf("no example holds this snippet:\n%s", block[1])
		}
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(page), -1)
	if len(rows) != 25 {
		t.Errorf("the page lists %d traps, expected 25", len(rows))
	}
}
