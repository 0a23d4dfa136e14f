package cellgate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Decision records are numbered without gaps, and their titles have the same numbers.
func TestDecisionRecordsAreNumbered(t *testing.T) {
	files, err := filepath.Glob("docs/adr/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	for i, file := range files {
		number := fmt.Sprintf("%04d", i)
		if !strings.HasPrefix(filepath.Base(file), number+"-") {
			t.Errorf("%s is the %s. one", file, number)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && !strings.HasPrefix(string(text), "# "+number+". ") {
			t.Errorf("%s does not begin with its number", file)
		}
	}
}
