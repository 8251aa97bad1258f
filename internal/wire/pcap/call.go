// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Call is a verbs call, a completion or an event between the packets of a capture.
type Call struct {
	Time   time.Time
	Text   string // a line of log/slog without its time
	Failed bool
}

// A call is an entry of systemd's journal, in its export format: lines of NAME=value. Wireshark
// shows it as a frame, with callText. It takes the time from callTime, in microseconds; a Reader
// takes it from callNanoseconds.
//
// Source: draft-ietf-opsawg-pcapng, "systemd Journal Export Block"
const (
	callTime        = "__REALTIME_TIMESTAMP="
	callNanoseconds = "VERBENA_TIME_NS="
	callPriority    = "PRIORITY="
	callText        = "MESSAGE="
	callProgram     = "SYSLOG_IDENTIFIER=verbena\n"
)

// maxCallBytes bounds the text of a call.
const maxCallBytes = 1 << 14

// Priorities of a call, those of syslog.
const (
	priorityWarning = "4"
	priorityDebug   = "7"
)

// appendCall appends the block of a call.
func appendCall(b []byte, c *Call) []byte {
	start := len(b)
	b = order.AppendUint32(b, BlockJournal)
	b = order.AppendUint32(b, 0)
	b = append(b, callTime...)
	b = strconv.AppendInt(b, c.Time.UnixMicro(), 10)
	b = append(b, '\n')
	b = append(b, callNanoseconds...)
	b = strconv.AppendInt(b, c.Time.UnixNano(), 10)
	priority := priorityDebug
	if c.Failed {
		priority = priorityWarning
	}
	b = append(append(append(b, '\n'), callPriority...), priority...)
	b = append(append(append(b, '\n'), callProgram...), callText...)
	text := len(b)
	b = append(b, c.Text[:min(len(c.Text), maxCallBytes)]...)
	for i, v := range b[text:] {
		if v == '\n' || v == 0 { // the ends of a value and of an entry
			b[text+i] = ' '
		}
	}
	b = append(b, '\n')
	b = append(b, padding[:-(len(b)-start)&3]...)
	n := uint32(len(b) - start + 4)
	order.PutUint32(b[start+4:], n)
	return order.AppendUint32(b, n)
}

// ParseCall takes the entry of a block of BlockJournal apart. ok is false if the entry is not a
// call. Fields may come in any order; unknown ones are passed over.
func ParseCall(entry []byte) (c Call, ok bool) {
	var has struct{ time, text bool }
	entry = bytes.TrimRight(entry, "\x00")
	for len(entry) > 0 {
		var line []byte
		line, entry, _ = bytes.Cut(entry, []byte("\n"))
		if v, is := bytes.CutPrefix(line, []byte(callNanoseconds)); is {
			ns, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil {
				return c, false
			}
			c.Time, has.time = time.Unix(0, ns), true
		} else if v, is := bytes.CutPrefix(line, []byte(callText)); is {
			c.Text, has.text = string(v), true
		} else if v, is := bytes.CutPrefix(line, []byte(callPriority)); is {
			c.Failed = string(v) == priorityWarning
		}
	}
	return c, has.time && has.text
}

// callHead is the number of bytes in which blockTime finds the time of a call.
const callHead = 8 + len(callTime) + 20

// blockTime returns the time of a block that appendCall or beginPacket has begun, from its first
// callHead bytes.
func blockTime(b []byte) time.Time {
	if order.Uint32(b) != BlockJournal {
		return packetTime(b)
	}
	line, _, _ := bytes.Cut(b[8+len(callTime):], []byte("\n"))
	us, _ := strconv.ParseInt(string(line), 10, 64)
	return time.UnixMicro(us)
}

// WriteCall writes a call. Its text is cut to 16 KiB.
func (w *Writer) WriteCall(c *Call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	b := appendCall(w.block[:0], c)
	w.block = b[:0]
	return w.writeLocked(c.Time, b)
}

// CallsMissing is the msg of the call that a Ring puts in the place of others.
const CallsMissing = "calls are missing"

// WriteCall keeps a call, as Writer.WriteCall writes it. Calls that find no room while the ring is
// written out are left out; before the next one there is a call that says how many.
func (r *Ring) WriteCall(c *Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.absent > 0 && !r.full && r.keepCallLocked(&Call{Time: c.Time, Failed: true,
		Text: fmt.Sprintf("level=WARN msg=%q calls=%d", CallsMissing, r.absent)}) {
		r.absent = 0
	}
	if r.full || !r.keepCallLocked(c) {
		r.absent++
	}
	return nil
}

func (r *Ring) keepCallLocked(c *Call) bool {
	kept := r.keepLocked(appendCall(r.block[:0], c))
	if kept {
		r.calls++
	}
	return kept
}
