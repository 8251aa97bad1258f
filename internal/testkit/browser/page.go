// SPDX-License-Identifier: BSD-2-Clause

package browser

import (
	"encoding/base64"
	"encoding/json"
)

// Open loads a page.
func (b *Browser) Open(url string) {
	b.t.Helper()
	var r struct{ ErrorText string }
	b.Call("Page.navigate", map[string]any{"url": url}, &r)
	if r.ErrorText != "" {
		b.t.Fatalf("%s: %s", url, r.ErrorText)
	}
	b.Eval(`new Promise(f => document.readyState === 'complete' ? f(true) :
		addEventListener('load', () => f(true)))`, nil)
}

// Eval evaluates an expression, waits for it if it is a promise, and decodes its value.
func (b *Browser) Eval(expression string, result any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true,
		"returnByValue": true}, &r)
	if e := r.ExceptionDetails; e != nil {
		b.t.Fatalf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if result != nil {
		if err := json.Unmarshal(r.Result.Value, result); err != nil {
			b.t.Fatalf("%s: %s: %v", expression, r.Result.Value, err)
		}
	}
}

// Click presses and releases the mouse at a point of the page.
func (b *Browser) Click(x, y float64) {
	b.t.Helper()
	b.Drag(x, y, x, y)
}

// Drag presses the mouse at a point and releases it at another.
func (b *Browser) Drag(x, y, toX, toY float64) {
	b.t.Helper()
	b.mouse("mousePressed", x, y, nil)
	if x != toX || y != toY {
		b.mouse("mouseMoved", (x+toX)/2, (y+toY)/2, nil)
		b.mouse("mouseMoved", toX, toY, nil)
	}
	b.mouse("mouseReleased", toX, toY, nil)
}

// Wheel turns the wheel at a point.
func (b *Browser) Wheel(x, y, delta float64) {
	b.t.Helper()
	b.mouse("mouseWheel", x, y, map[string]any{"deltaX": 0, "deltaY": delta})
}

func (b *Browser) mouse(kind string, x, y float64, more map[string]any) {
	b.t.Helper()
	m := map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
	if kind == "mouseMoved" {
		m["buttons"] = 1
	}
	if kind == "mouseWheel" {
		m["button"], m["clickCount"] = "none", 0
	}
	for k, v := range more {
		m[k] = v
	}
	b.Call("Input.dispatchMouseEvent", m, nil)
}

// Screenshot returns a PNG of the page.
func (b *Browser) Screenshot() []byte {
	b.t.Helper()
	var r struct{ Data string }
	b.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}
