// Command cmd writes the documentation's pictures: go run ./internal/pictures/cmd docs/img
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gormflake/gormflake/internal/pictures"
)

func main() {
	folder := filepath.Join("docs", "img")
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	for name, svg := range pictures.Pictures() {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(svg), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "pictures:", err)
			os.Exit(1)
		}
	}
}
