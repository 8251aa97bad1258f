// SPDX-License-Identifier: BSD-2-Clause

package recorder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/futex"
	"verbena/internal/wire/pcap"
)

const (
	// burst is the time without a failure that ends a burst of failures.
	burst = monotime.Second
	// settle is the time from a failure to the file: the packet that tells the peer of it, or the
	// peer's next one, comes behind.
	settle = 20 * time.Millisecond
	// mostBursts bounds the files of failures: a server may run for months with a peer that fails
	// each minute.
	mostBursts = 16
	// mostNames bounds the search for a name that is not taken.
	mostNames = 10000
	// partSuffix ends the name of a file that is not whole yet.
	partSuffix = ".part"
)

// Options of a Recorder.
type Options struct {
	Bytes int    // of packets to keep
	File  string // the first one to write; others get numbers before its extension
	// Tell prints a line for the user.
	Tell func(line string)
	// Wrote is called after each piece of a file. nil: nobody waits for a long one.
	Wrote func()
	// Signal calls a function for each signal that asks for a file, until stop is called. nil:
	// there is no signal.
	Signal func(f func()) (stop func())
	// Now is the clock of bursts; nil: monotime.Now.
	Now func() monotime.Time
}

// Recorder is a ring of packets that is written to files.
type Recorder struct {
	*pcap.Ring

	// immutable after New
	opt  Options
	stop func()
	wake chan struct{} // holds a token while there is a reason
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	idle     *sync.Cond
	reason   string        // guarded by mu: why to write a file; empty: nothing to do
	until    time.Time     // guarded by mu: when the packets of a failure are there
	writing  bool          // guarded by mu
	closed   bool          // guarded by mu
	failed   bool          // guarded by mu: at lastFail
	complete bool          // guarded by mu: a completion has failed since the burst began
	lastFail monotime.Time // guarded by mu
	bursts   int           // guarded by mu
}

// New returns a Recorder, which takes packets at once.
func New(o Options) *Recorder {
	if o.Now == nil {
		o.Now = monotime.Now
	}
	r := &Recorder{Ring: pcap.NewRing(o.Bytes, "verbena"), opt: o, stop: func() {},
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	r.idle = sync.NewCond(&r.mu)
	go r.run()
	if o.Signal != nil {
		r.stop = o.Signal(func() { r.Ask("SIGUSR1") })
	}
	return r
}

// Failed has a file written soon, unless this failure belongs to a burst of them. It is a failed
// completion, or an event of a queue pair. The peer's answer may come long after an event. So the
// first completion of a burst waits for its packets, too, and has another file written if that of
// the event is begun. Failed does not block.
func (r *Recorder) Failed(completion bool, what func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opt.Now()
	again := r.failed && now.Sub(r.lastFail) < burst
	r.failed, r.lastFail = true, now
	first := completion && !(again && r.complete)
	r.complete = completion || again && r.complete
	if again && !first {
		return
	}
	if again && r.reason != "" {
		r.until = time.Now().Add(settle)
		return
	}
	if r.bursts == mostBursts {
		return
	}
	r.bursts++
	why := what()
	if r.bursts == mostBursts {
		why += fmt.Sprintf("; failure %d is the last that is recorded", r.bursts)
	}
	r.askLocked(why, settle)
}

// Ask has a file written soon, for a reason. It does not block. Reasons that come before the file
// is begun are one.
func (r *Recorder) Ask(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askLocked(reason, 0)
}

func (r *Recorder) askLocked(reason string, after time.Duration) {
	if r.closed || r.reason != "" {
		return
	}
	r.reason, r.until = reason, time.Now().Add(after)
	r.wake <- struct{}{} // there is room: its last token went with the last reason
}

// run writes files until Close.
func (r *Recorder) run() {
	defer close(r.done)
	for range r.wake {
		r.opt.Tell(r.write(r.settled()))
		r.mu.Lock()
		r.writing = false
		r.idle.Broadcast()
		r.mu.Unlock()
	}
}

// settled returns the reason, once its packets are there.
func (r *Recorder) settled() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for left := time.Until(r.until); left > 0; left = time.Until(r.until) {
		r.mu.Unlock()
		futex.Sleep(left)
		r.mu.Lock()
	}
	reason := r.reason
	r.reason, r.writing = "", true
	return reason
}

// Flush waits for the files that were asked for.
func (r *Recorder) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.reason != "" || r.writing {
		r.idle.Wait()
	}
	return nil
}

// Close writes the files that were asked for, and ends the Recorder.
func (r *Recorder) Close() error {
	r.stop()
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.wake) // a token in it is taken first
	}
	r.mu.Unlock()
	<-r.done
	return nil
}

// write writes a file, and returns the line about it.
func (r *Recorder) write(reason string) string {
	c := r.Hold()
	defer c.Release()
	if c.Packets == 0 { // those of a TCP connection that was refused are the system's
		return fmt.Sprintf("--pcap-ring: there is no packet to write (%s)", reason)
	}
	name, err := r.create(c)
	if err != nil {
		return fmt.Sprintf("--pcap-ring: cannot write %d packets (%s): %v", c.Packets, reason, err)
	}
	return fmt.Sprintf("--pcap-ring: wrote %d packets of %v to %s (%s)", c.Packets, Round(c.Span),
		name, reason)
}

// create writes the packets to the first file of the names that is not there yet. It gets its name
// when it is whole: without the newest packets it explains nothing.
func (r *Recorder) create(c *pcap.Contents) (name string, err error) {
	var f io.WriteCloser
	part, err := r.firstFree(partSuffix, func(name string) (err error) {
		f, err = fdtrack.CreateNew(name)
		return err
	})
	if err != nil {
		return part, err
	}
	defer os.Remove(part)
	_, err = c.WriteTo(progress{f, r.opt.Wrote})
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return part, fmt.Errorf("%s: %w", part, err)
	}
	return r.firstFree("", func(name string) error { return give(part, name) })
}

// give gives a file a name that is not taken.
func give(part, name string) error {
	err := os.Link(part, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := fdtrack.CreateNew(name) // a file system without links: take the name first
	if err != nil {
		return err
	}
	f.Close()
	return os.Rename(part, name)
}

// firstFree calls take with the names of files, until it does not fail because a file is there.
func (r *Recorder) firstFree(suffix string, take func(name string) error) (name string, err error) {
	for n := 1; n <= mostNames; n++ {
		name = Name(r.opt.File, n) + suffix
		if err = take(name); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
	return name, fmt.Errorf("%d files of this name are there, the last is %s", mostNames, name)
}

// progress calls wrote after each Write.
type progress struct {
	io.Writer
	wrote func()
}

func (p progress) Write(b []byte) (n int, err error) {
	n, err = p.Writer.Write(b)
	if p.wrote != nil {
		p.wrote()
	}
	return n, err
}

// Name returns the name of the nth file, from 1: x.pcapng, x-2.pcapng, …
func Name(file string, n int) string {
	if n == 1 {
		return file
	}
	ext := filepath.Ext(file)
	return strings.TrimSuffix(file, ext) + "-" + strconv.Itoa(n) + ext
}

// Round leaves two or three digits of a duration.
func Round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
