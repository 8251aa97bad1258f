// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"verbena/internal/testkit/talk"
	"verbena/internal/tools/cli"
)

func run(t *testing.T, ctx context.Context, out io.Writer, args ...string) (errOut string, status int) {
	t.Helper()
	var e bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(&e)
	status = cli.Execute(ctx, cmd, &e)
	return e.String(), status
}

func capture(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(name, talk.Lossy(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSummary(t *testing.T) {
	var out bytes.Buffer
	errOut, status := run(t, t.Context(), &out, "--summary", capture(t))
	if status != cli.ExitOK || !strings.Contains(out.String(), "WRITE #4 of A failed") {
		t.Errorf("status %d: %s\n%s", status, errOut, &out)
	}
}

func TestViewWritesAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.html")
	errOut, status := run(t, t.Context(), io.Discard, "-o", name, capture(t))
	page, err := os.ReadFile(name)
	if status != cli.ExitOK || err != nil || !bytes.HasPrefix(page, []byte("<!DOCTYPE html>")) || !bytes.HasSuffix(bytes.TrimSpace(page), []byte("</html>")) {
		t.Errorf("status %d: %s, %v", status, errOut, err)
	}
	if bytes.Contains(page, []byte("{{.")) {
		t.Error("a place of the page is not filled")
	}
	var out bytes.Buffer
	if errOut, status := run(t, t.Context(), &out, "-o", "-", capture(t)); status != cli.ExitOK || !strings.HasPrefix(out.String(), "<!DOCTYPE html>") {
		t.Errorf("status %d: %s", status, errOut)
	}
}

// A link, such as /dev/stdout is, stays if it cannot be written to.
func TestViewLeavesLinks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "full")
	if err := os.Symlink("/dev/full", name); err != nil {
		t.Fatal(err)
	}
	errOut, status := run(t, t.Context(), io.Discard, "-o", name, capture(t))
	if _, err := os.Lstat(name); status != cli.ExitFailure || err != nil || !strings.Contains(errOut, "no space left") {
		t.Errorf("status %d: %s, %v", status, errOut, err)
	}
}

// Without a desktop the page is in a file, whose name is printed.
func TestViewWithoutDesktop(t *testing.T) {
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	errOut, status := run(t, t.Context(), &out, capture(t))
	if _, err := os.Stat(strings.TrimSpace(out.String())); status != cli.ExitOK || err != nil || !strings.Contains(errOut, "no desktop") {
		t.Errorf("status %d: %s, %v", status, errOut, err)
	}
}

// With one, xdg-open gets the file.
func TestViewOpensTheDesktop(t *testing.T) {
	bin := t.TempDir()
	opener := "#!/bin/sh\ncp \"$1\" " + filepath.Join(bin, "opened") + "\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(opener), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DISPLAY", ":7")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", t.TempDir())
	errOut, status := run(t, t.Context(), io.Discard, capture(t))
	if page, err := os.ReadFile(filepath.Join(bin, "opened")); status != cli.ExitOK || err != nil || !bytes.Contains(page, []byte("verbena view")) {
		t.Errorf("status %d: %s, %v", status, errOut, err)
	}
}

func TestViewSaysWhatIsWrong(t *testing.T) {
	x := capture(t)
	empty := filepath.Join(t.TempDir(), "empty.log")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		status int
		words  string
	}{
		{"", cli.ExitUsage, "at least one FILE"},
		{x + ".missing", cli.ExitFailure, "x.pcapng.missing"},
		{"-o x --summary " + x, cli.ExitUsage, "give one of"},
		{"--listen 0.0.0.0:0 " + x, cli.ExitUsage, "must be a loopback address"},
		{"--listen 8080 " + x, cli.ExitUsage, "must be an address and a port"},
		{"-o /nowhere/x.html " + x, cli.ExitFailure, "/nowhere/x.html"},
		{"--summary --log " + empty + " " + x, cli.ExitFailure, "no verbs calls are in it"},
		{"--summary --log /nowhere " + x, cli.ExitFailure, "--log"},
	} {
		errOut, status := run(t, t.Context(), io.Discard, strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(errOut, c.words) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: status %d, %q", c.args, status, errOut)
		}
	}
}

// TestServe: the page has a secret path, one host, and headers that forbid all else.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	done := make(chan int, 1)
	name := capture(t)
	go func() {
		_, status := run(t, ctx, w, "--listen", "127.0.0.1:0", name)
		w.Close()
		done <- status
	}()
	line := make([]byte, 256)
	n, err := r.Read(line)
	url := strings.TrimSpace(string(line[:n]))
	if err != nil || !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/[A-Z0-9]{20,}/$`).MatchString(url) {
		t.Fatalf("%q, %v", url, err)
	}
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 200 || !bytes.Contains(page, []byte("verbena view")) || res.Header.Get("Content-Security-Policy") != policy() {
		t.Errorf("%s: %v", res.Status, res.Header)
	}
	stop()
	if status := <-done; status != cli.ExitInterrupted && status != cli.ExitOK {
		t.Errorf("status %d", status)
	}
}

func TestHandlerAnswersLoopbackAndPath(t *testing.T) {
	h := handler("/secret/", []byte("page"))
	for _, c := range []struct {
		host, path string
		status     int
	}{{"127.0.0.1:80", "/secret/", 200}, {"127.0.0.1:80", "/", 404}, {"evil.example:80", "/secret/", 404}, {"127.0.0.1:80", "/secret/x", 404},
		{"localhost:9999", "/secret/", 200}, {"127.0.0.2", "/secret/", 200}, {"[::1]:81", "/secret/", 200}, {"[::1]", "/secret/", 200},
		{"192.0.2.1:80", "/secret/", 404}, {"localhost.evil.example", "/secret/", 404}, {"127.0.0.1.evil.example:80", "/secret/", 404}, {"", "/secret/", 404}} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://x"+c.path, nil)
		r.Host = c.host
		if h.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("%s%s: %d, want %d", c.host, c.path, w.Code, c.status)
		}
	}
}
