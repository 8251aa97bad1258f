// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// exampleFile has README.md's program as an Example, which go test runs.
const exampleFile = "rdmacm/example_readme_test.go"

func TestReadmeProgramIsTheExample(t *testing.T) {
	readme := read(t, "README.md")
	_, block, ok := strings.Cut(readme, "```go\n")
	if ok {
		block, _, ok = strings.Cut(block, "```\n")
	}
	if !ok {
		t.Fatal("README.md has no Go block")
	}
	example := read(t, exampleFile)
	_, program, ok := strings.Cut(example, "func Example_readme() {\n")
	if ok {
		program, _, ok = strings.Cut(program, "\n\t// Output:")
	}
	if !ok {
		t.Fatalf("%s has no Example_readme with its output", exampleFile)
	}
	if want := "func main() {\n" + program + "\n}\n"; block != want {
		t.Errorf("README.md's Go block differs from Example_readme in %s; it must be:\n%s", exampleFile, want)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSecurityNamesTests: the tests that SECURITY.md names are there.
func TestSecurityNamesTests(t *testing.T) {
	var code strings.Builder
	for _, s := range sources(t) {
		if s.isTest() {
			code.WriteString(read(t, s.path))
		}
	}
	for _, name := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(read(t, "SECURITY.md"), -1) {
		if !strings.Contains(code.String(), "func "+name[1]+"(t *") {
			t.Errorf("SECURITY.md names %s, which is not there", name[1])
		}
	}
}
