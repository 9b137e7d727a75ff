// Package docs reads the project's Markdown, for the tests that compile every
// Go snippet in it and follow every link.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Pages returns the Markdown files below root, relative to it, sorted.
func Pages(root string) ([]string, error) {
	var pages []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || (strings.HasPrefix(entry.Name(), ".") && path != root)):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			pages = append(pages, name)
		}
		return nil
	})
	slices.Sort(pages)
	return pages, err
}

// Block is a fenced block of a page.
type Block struct {
	Line     int    // of the opening fence, from 1
	Language string // the first word after the fence
	Text     string
}

// Blocks returns the fenced blocks of a page.
func Blocks(markdown string) []Block {
	var blocks []Block
	var open *Block
	var fence string
	for i, line := range strings.Split(markdown, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open == nil && strings.HasPrefix(trimmed, "```"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
			language, _, _ := strings.Cut(strings.TrimSpace(strings.TrimLeft(trimmed, "`")), " ")
			open = &Block{Line: i + 1, Language: language}
		case open != nil && trimmed == fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.Text += line + "\n"
		}
	}
	return blocks
}

var (
	linkPattern    = regexp.MustCompile(`!?\[[^\]]*\]\(([^)\s]+)[^)]*\)|(?:src|href)="([^"]+)"`)
	headingPattern = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*$`)
	codePattern    = regexp.MustCompile("`[^`\n]*`")
)

// Links returns the targets of a page's links and pictures, code left out.
func Links(markdown string) []string {
	var links []string
	for _, m := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(prose(markdown), ""), -1) {
		links = append(links, m[1]+m[2])
	}
	return links
}

// Anchors returns the fragments that a page's headings make on GitHub.
func Anchors(markdown string) []string {
	var anchors []string
	seen := map[string]int{}
	for _, m := range headingPattern.FindAllStringSubmatch(prose(markdown), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, m[1])
		if n := seen[anchor]; n > 0 {
			anchors = append(anchors, anchor+"-"+string(rune('0'+n)))
		} else {
			anchors = append(anchors, anchor)
		}
		seen[anchor]++
	}
	return anchors
}

// prose is a page without its fenced blocks.
func prose(markdown string) string {
	var out strings.Builder
	fenced := false
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			out.WriteString(line)
		}
	}
	return out.String()
}

// Root returns the repository's root: the nearest folder above with a go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fs.ErrNotExist
		}
		dir = parent
	}
	return "", err
}
