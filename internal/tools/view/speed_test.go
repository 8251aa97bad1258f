// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"verbena/internal/testkit/browser"
	"verbena/internal/testkit/talk"
	"verbena/internal/wire/roce"
)

// million returns a capture of a million packets. One in a hundred requests is sent again.
func million(b testing.TB) []byte {
	c := talk.New(b)
	for i := range uint32(500_000) {
		c.Send(roce.RCSendOnly, i, 64)
		if i%100 == 50 {
			c.Send(roce.RCSendOnly, i, 64)
		} else {
			c.Ack(i)
		}
	}
	return c.Bytes()
}

// BenchmarkMillion makes the page of a capture of a million packets.
func BenchmarkMillion(b *testing.B) {
	capture := million(b)
	b.ResetTimer()
	for range b.N {
		if err := WritePage(io.Discard, read(b, "million", capture)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(capture))/1e6, "MB")
}

// BenchmarkMillionInBrowser opens a capture of a million packets, from the file to the first
// drawing in the browser. Then it zooms in to a few packets, moves, and zooms out. Meanwhile
// frame-ms is the mean time between frames, worst-ms the longest, and draw-ms the longest time in
// the page's script.
func BenchmarkMillionInBrowser(b *testing.B) {
	openMillion(b, million(b))
}

// BenchmarkJoinedInBrowser is BenchmarkMillionInBrowser of the captures of both ends, of half a
// million packets each.
func BenchmarkJoinedInBrowser(b *testing.B) {
	x, y := halves(b)
	openMillion(b, x, y)
}

// BenchmarkJoined makes the page of the captures of both ends, of half a million packets each.
func BenchmarkJoined(b *testing.B) {
	x, y := halves(b)
	b.ResetTimer()
	for range b.N {
		if err := WritePage(io.Discard, read(b, "million", x, y)); err != nil {
			b.Fatal(err)
		}
	}
}

// halves returns the captures of both ends of a conversation of half a million packets.
func halves(b testing.TB) (x, y []byte) {
	c := talk.New(b)
	for i := range uint32(250_000) {
		c.Send(roce.RCSendOnly, i, 64)
		if i%100 == 50 {
			c.Send(roce.RCSendOnly, i, 64)
		}
		c.Ack(i)
	}
	ends := talk.Ends{Ahead: time.Second, Told: true, Fate: func(n int) talk.Fate {
		return talk.Fate{Flight: 10 * time.Microsecond, Lost: n%201 == 100}
	}}
	return ends.Split(b, c.Bytes())
}

// openMillion measures the opening and moving of captures.
func openMillion(b *testing.B, captures ...[]byte) {
	dir := b.TempDir()
	for i, c := range captures {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), c, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	page := browser.Start(b, 1400, 900)
	var frames struct{ Mean, Worst, Busy float64 }
	for b.Loop() {
		start := time.Now()
		var data [][]byte
		for i := range captures {
			d, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
			if err != nil {
				b.Fatal(err)
			}
			data = append(data, d)
		}
		file := filepath.Join(dir, "page.html")
		if err := writeFile(file, read(b, "million", data...)); err != nil {
			b.Fatal(err)
		}
		made := time.Since(start)
		page.Open("file://" + file)
		page.Eval("verbenaView.ready", nil)
		b.ReportMetric(made.Seconds(), "made-s")
		b.ReportMetric(time.Since(start).Seconds(), "open-s")
		page.Eval(`(async () => {
			const { from, to } = verbenaView.state(), span = to - from, times = [], frame = () => new Promise(requestAnimationFrame);
			let last = await frame(), busy = 0;
			const step = async (a, b) => {
				const t = performance.now();
				verbenaView.view(a, b);
				busy = Math.max(busy, performance.now() - t);
				const now = await frame();
				times.push(now - last);
				last = now;
			};
			for (const f of [1, .3, .03, .02, .01, .001]) {
				for (let i = 0; i < 20; i++) { const w = span * f * Math.exp(-i / 20), a = from + span * (.3 + f * i / 100); await step(a, a + w); }
			}
			for (let i = 0; i < 60; i++) { const w = span * Math.exp(i / 5 - 12); await step(from + span * .4, from + span * .4 + w); }
			return { Mean: times.reduce((a, b) => a + b) / times.length, Worst: Math.max(...times), Busy: busy };
		})()`, &frames)
		b.ReportMetric(frames.Mean, "frame-ms")
		b.ReportMetric(frames.Worst, "worst-ms")
		b.ReportMetric(frames.Busy, "draw-ms")
	}
}
