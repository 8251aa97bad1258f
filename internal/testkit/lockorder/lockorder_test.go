// SPDX-License-Identifier: BSD-2-Clause

package lockorder

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const header = `package p

import "sync"

type A struct{ mu sync.Mutex; f func(); b *B }
type B struct{ mu sync.RWMutex }

func (b *B) lock() { b.mu.Lock(); b.mu.Unlock() }
`

// load analyses files behind the header, each a package of one module.
func load(t *testing.T, sources map[string]string) *Program {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module m\n\ngo 1.24\n"}
	for name, source := range sources {
		files[name+"/p.go"] = header + source
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Load(dir, "./...")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEdges(t *testing.T) {
	const taken = "A.mu B.mu"
	cases := map[string]struct {
		source string
		want   string // the edges
	}{
		"here":                  {`func f(a *A, b *B) { a.mu.Lock(); b.mu.RLock(); b.mu.RUnlock(); a.mu.Unlock() }`, taken},
		"one after the other":   {`func f(a *A, b *B) { a.mu.Lock(); a.mu.Unlock(); b.lock() }`, ""},
		"by a call":             {`func f(a *A, b *B) { a.mu.Lock(); defer a.mu.Unlock(); b.lock() }`, taken},
		"a deferred call":       {`func f(a *A, b *B) { a.mu.Lock(); defer a.mu.Unlock(); defer b.lock() }`, taken},
		"deferred, later":       {`func f(a *A, b *B) { defer b.lock(); a.mu.Lock(); defer a.mu.Unlock() }`, ""},
		"in a branch":           {`func f(a *A, b *B, x bool) { a.mu.Lock(); if x { a.mu.Unlock(); b.lock(); return }; a.mu.Unlock() }`, ""},
		"after a branch":        {`func f(a *A, b *B, x bool) { if x { a.mu.Lock() }; b.lock() }`, taken},
		"in a loop":             {`func f(a *A, b *B) { for range 3 { b.lock(); a.mu.Lock() } }`, "A.mu A.mu;A.mu B.mu"},
		"after break":           {`func f(a *A, b *B) { for { a.mu.Lock(); break }; b.lock() }`, taken},
		"a goroutine":           {`func f(a *A, b *B) { a.mu.Lock(); go b.lock(); a.mu.Unlock() }`, ""},
		"TryLock holds":         {`func f(a *A, b *B) { if !a.mu.TryLock() { return }; b.lock(); a.mu.Unlock() }`, taken},
		"TryLock fails":         {`func f(a *A, b *B) { if a.mu.TryLock() { a.mu.Unlock() } else { b.lock() } }`, ""},
		"TryLock does not wait": {`func f(a *A, b *B) { a.mu.Lock(); if b.mu.TryLock() { b.mu.Unlock() }; a.mu.Unlock() }`, ""},
		"by an interface": {`type I interface{ lock() }
			func f(a *A, i I) { a.mu.Lock(); i.lock(); a.mu.Unlock() }`, taken},
		"by a field":     {`func f(a *A, b *B) { a.f = b.lock; a.mu.Lock(); a.f(); a.mu.Unlock() }`, taken},
		"by a literal":   {`func f(b *B) *A { return &A{f: func() { b.lock() }} }; func g(a *A) { a.mu.Lock(); a.f(); a.mu.Unlock() }`, taken},
		"by a parameter": {`func each(f func()) { f() }; func f(a *A, b *B) { a.mu.Lock(); each(func() { b.lock() }); a.mu.Unlock() }`, taken},
		"by a key":       {`var all = map[*func()]bool{}; func add(b *B) { f := b.lock; all[&f] = true }; func g(a *A) { a.mu.Lock(); for f := range all { (*f)() } }`, taken},
		"by the library": {`var once sync.Once; func f(a *A, b *B) { a.mu.Lock(); once.Do(b.lock); a.mu.Unlock() }`, taken},
		"released by a callee": {`func (a *A) leaveUnlock(b *B) { a.mu.Unlock(); b.lock() }
			func f(a *A, b *B) { a.mu.Lock(); a.leaveUnlock(b) }`, ""},
		"a callee returns locked": {`func (a *A) begin() { a.mu.Lock() }
			func f(a *A, b *B) { a.begin(); b.lock() }`, taken},
		"a callee fails unlocked": {`func (a *A) begin(err error) error { if err != nil { return err }; a.mu.Lock(); return nil }
			func f(a *A, b *B, e error) { if err := a.begin(e); err != nil { b.lock(); return }; a.mu.Unlock() }`, ""},
		"a callee succeeds": {`func (a *A) begin(err error) error { if err != nil { return err }; a.mu.Lock(); return nil }
			func f(a *A, b *B, e error) { if err := a.begin(e); err != nil { return }; b.lock() }`, taken},
		"nothing to lock": {`func (a *A) begin() { if a != nil { a.mu.Lock() } }; func (a *A) end() { if a != nil { a.mu.Unlock() } }
			func f(a *A, b *B) { a.begin(); a.end(); b.lock() }`, ""},
		"functions call each other": {`func f(a *A, n int) { a.mu.Lock(); a.mu.Unlock(); if n > 0 { g(a, n-1) } }; func g(a *A, n int) { f(a, n); a.b.lock() }`, ""},
		"a pointer to a lock":       {`type C struct{ mu *sync.Mutex }; func f(c *C, b *B) { c.mu.Lock(); b.lock(); c.mu.Unlock() }`, "C.mu B.mu"},
		"an argument":               {`func in(mu *sync.Mutex, b *B) { mu.Lock(); b.lock(); mu.Unlock() }; func f(a *A, b *B) { in(&a.mu, b) }`, taken},
		"an embedded lock":          {`type C struct{ sync.Mutex }; func f(c *C, b *B) { c.Lock(); b.lock(); c.Unlock() }`, "C.Mutex B.mu"},
		"a wrapper of another type": {`type I interface{ lock() }; type W struct{ mu sync.Mutex; in I }
			func (w *W) lock() { w.mu.Lock(); w.in.lock(); w.mu.Unlock() }`, "W.mu B.mu"},
	}
	sources, got := map[string]string{}, map[string][]string{}
	for name, c := range cases {
		sources[folder(name)] = c.source
	}
	for _, e := range load(t, sources).Edges() {
		in, held, _ := strings.Cut(e.Held, ".")
		got[in] = append(got[in], held+" "+strings.TrimPrefix(e.Taken, in+"."))
	}
	for name, c := range cases {
		if got := strings.Join(got[folder(name)], ";"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func folder(name string) string { return strings.NewReplacer(" ", "_", ",", "").Replace(name) }

// TestPathLeadsToTheLock wants the functions between the two locks.
func TestPathLeadsToTheLock(t *testing.T) {
	p := load(t, map[string]string{
		"p": `func f(a *A, b *B) { a.mu.Lock(); g(b); a.mu.Unlock() }; func g(b *B) { b.lock() }`})
	var names []string
	for _, step := range p.Edges()[0].Path {
		name, _, _ := strings.Cut(step, " ")
		names = append(names, name)
	}
	if want := []string{"p.f", "p.g", "p.B.lock"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
