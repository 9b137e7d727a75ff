package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/docs"
)

// pages returns the repository's root and the text of every page.
func pages(t *testing.T) (string, map[string]string) {
	t.Helper()
	root, err := docs.Root()
	if err != nil {
		t.Fatal(err)
	}
	names, err := docs.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return root, texts
}

// Links to other sites are not followed: tests don't reach beyond loopback.
func TestEveryLinkResolves(t *testing.T) {
	root, texts := pages(t)
	for name, text := range texts {
		for _, link := range docs.Links(text) {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(link, "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, link)
				continue
			}
			if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(docs.Anchors(texts[target]), anchor) {
				t.Errorf("%s links to %s, but %s has only the headings %v", name, link, target, docs.Anchors(texts[target]))
			}
		}
	}
}
