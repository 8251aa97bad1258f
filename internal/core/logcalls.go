// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"log/slog"
	"strings"

	"verbena/ib"
)

// LogCalls returns a Log that shows each line, down to work requests, without its time.
func LogCalls(show func(line string, failed bool)) Log {
	o := slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: timeless}
	return verbLog{slog.New(slog.NewTextHandler(lines(show), &o))}
}

// timeless leaves the time of a line out.
func timeless(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// lines shows the lines that a handler writes to it, each by one Write.
type lines func(line string, failed bool)

func (show lines) Write(b []byte) (int, error) {
	line := strings.TrimSuffix(string(b), "\n")
	show(line, strings.HasPrefix(line, "level=WARN "))
	return len(b), nil
}

// twoLogs writes to both.
type twoLogs [2]Log

// bothLogs returns a Log that writes to both; a is nil without one.
func bothLogs(a, b Log) Log {
	if a == nil {
		return b
	}
	return twoLogs{a, b}
}

func (t twoLogs) of(device string) Log { return twoLogs{t[0].of(device), t[1].of(device)} }

func (t twoLogs) call(verb string, err error, args ...any) {
	t[0].call(verb, err, args...)
	t[1].call(verb, err, args...)
}

func (t twoLogs) asked(verb string, err error) {
	t[0].asked(verb, err)
	t[1].asked(verb, err)
}

func (t twoLogs) sent(q *QP, wr *SendWR, err error) {
	t[0].sent(q, wr, err)
	t[1].sent(q, wr, err)
}

func (t twoLogs) received(verb string, queue slog.Attr, q *QP, wr *RecvWR,
	err error) {
	t[0].received(verb, queue, q, wr, err)
	t[1].received(verb, queue, q, wr, err)
}

func (t twoLogs) completed(c *Context, wc *ib.WC) {
	t[0].completed(c, wc)
	t[1].completed(c, wc)
}

func (t twoLogs) raised(e *AsyncEvent) {
	t[0].raised(e)
	t[1].raised(e)
}

func (t twoLogs) connection(e *ConnEvent) {
	t[0].connection(e)
	t[1].connection(e)
}
