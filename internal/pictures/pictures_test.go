package pictures_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/pictures"
)

func TestThePicturesInDocsAreCurrent(t *testing.T) {
	for name, svg := range pictures.Pictures() {
		file := filepath.Join("..", "..", "docs", "img", name)
		if got, err := os.ReadFile(file); err != nil || string(got) != svg {
			t.Errorf("%s is not what the program draws (%v); run go run ./internal/pictures/cmd", name, err)
		}
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s is no XML: %v", name, err)
			}
		}
	}
}
