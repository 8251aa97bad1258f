// SPDX-License-Identifier: BSD-2-Clause

package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Browser is a running Chromium with one page.
type Browser struct {
	t       testing.TB
	to      io.Writer
	session string
	bound   time.Duration // of an answer

	mu      sync.Mutex
	next    int                     // guarded by mu
	waiting map[int]chan<- response // guarded by mu
	ended   error                   // guarded by mu: set when the browser says no more
	events  []Event                 // guarded by mu
}

// Event is one that the browser has reported.
type Event struct {
	Method string
	Params json.RawMessage
}

type response struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Start starts a browser that ends with the test. It skips the test where there is no Chromium.
func Start(t testing.TB, width, height int) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: apt-get install chromium")
	}
	inRead, inWrite := pipe(t)
	outRead, outWrite := pipe(t)
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND",
		fmt.Sprintf("--window-size=%d,%d", width, height), "--user-data-dir="+profile(t),
		"--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{inRead, outWrite} // its descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inRead.Close()
	outWrite.Close()
	b := &Browser{t: t, to: inWrite, bound: 2 * time.Minute, waiting: map[int]chan<- response{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(outRead) })
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		kill := time.AfterFunc(b.bound, func() { cmd.Process.Kill() })
		reading.Wait()
		cmd.Wait()
		kill.Stop()
		inWrite.Close()
		outRead.Close()
	})
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget",
		map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.Call(domain+".enable", nil, nil)
	}
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

// profile returns a fresh directory for a browser's files. Helper processes of a browser may
// outlive it for a moment, and still write there: what cannot be removed then is left behind.
func profile(t testing.TB) string {
	dir, err := os.MkdirTemp("", "verbena-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 100 {
			if os.RemoveAll(dir) == nil {
				return
			}
		}
	})
	return dir
}

func pipe(t testing.TB) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// read takes the browser's messages, which end with a zero byte.
func (b *Browser) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			b.end(fmt.Errorf("the browser has ended: %w", err))
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			response
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			b.end(err)
			return
		}
		b.mu.Lock()
		if m.Method != "" {
			b.events = append(b.events, Event{m.Method, m.Params})
		} else if c := b.waiting[m.ID]; c != nil {
			delete(b.waiting, m.ID)
			c <- m.response
		}
		b.mu.Unlock()
	}
}

func (b *Browser) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = err
	for id, c := range b.waiting {
		close(c)
		delete(b.waiting, id)
	}
}

var errEnded = errors.New("the browser has ended")

// send sends a command, whose answer comes on the channel.
func (b *Browser) send(session, method string, params any) (<-chan response, error) {
	c := make(chan response, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return nil, b.ended
	}
	b.next++
	m := map[string]any{"id": b.next, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	b.waiting[b.next] = c
	_, err = b.to.Write(append(text, 0))
	return c, err
}

func (b *Browser) call(session, method string, params, result any) {
	b.t.Helper()
	if err := b.ask(session, method, params, result); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// ask sends a command and decodes its answer. A page in an endless loop gives none.
func (b *Browser) ask(session, method string, params, result any) error {
	c, err := b.send(session, method, params)
	if err != nil {
		return err
	}
	select {
	case r, ok := <-c:
		switch {
		case !ok:
			return errEnded
		case r.Error != nil:
			return errors.New(r.Error.Message)
		case result != nil:
			return json.Unmarshal(r.Result, result)
		}
		return nil
	case <-time.After(b.bound):
		return fmt.Errorf("no answer within %v", b.bound)
	}
}

// Call calls a method of the DevTools protocol for the page. A result may be nil.
func (b *Browser) Call(method string, params, result any) {
	b.t.Helper()
	b.call(b.session, method, params, result)
}

// Events returns the events of a method so far.
func (b *Browser) Events(method string) (list []Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.Method == method {
			list = append(list, e)
		}
	}
	return list
}
