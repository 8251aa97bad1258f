// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Call is a line of a log of verbs calls, or of such calls in a capture: a call, a completion or an
// event.
type Call struct {
	Time   int64 // since the Timeline's Start
	Conn   int   // whose queue pair it names, or -1
	Name   string
	Text   string
	Failed bool
}

const (
	maxLine  = 1 << 16
	maxCalls = 1 << 20
)

// AddCalls reads a log as VERBENA_LOG and verbs.WithLogger write it: a line of log/slog for each
// call, as text or JSON. Other lines are skipped, as the program's own output may be among them. It
// returns the number of calls.
func (t *Timeline) AddCalls(r io.Reader) (n int, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if c, ok := t.parseCall(strings.TrimSpace(string(line))); ok && len(t.Calls) < maxCalls {
			t.Calls = append(t.Calls, c)
			n++
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			t.sortCalls()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
	}
}

func (t *Timeline) sortCalls() {
	place := make([]uint32, len(t.Calls))
	list := make([]uint32, len(t.Calls))
	for i := range list {
		list[i] = uint32(i)
	}
	slices.SortStableFunc(list, func(i, j uint32) int {
		return cmp.Compare(t.Calls[i].Time, t.Calls[j].Time)
	})
	for to, from := range list {
		place[from] = uint32(to)
	}
	t.Calls = pick(t.Calls, list)
	for i := range t.Ops {
		for _, of := range []*uint32{&t.Ops[i].Posted, &t.Ops[i].Completed} {
			if *of != None {
				*of = place[*of]
			}
		}
	}
}

// attribute is a name and its value.
type attribute struct{ name, value string }

func (t *Timeline) parseCall(line string) (c Call, ok bool) {
	if strings.HasPrefix(line, "{") {
		return t.callOf(jsonAttributes(line), anyFile)
	} else if strings.HasPrefix(line, "time=") {
		return t.callOf(textAttributes(line), anyFile)
	}
	return c, false
}

// anyFile stands for the connections of all files.
const anyFile = -1

// callOf returns the call of a line of a log. ok is false if it has no time or no name. Its
// connection is one of a file.
func (t *Timeline) callOf(list []attribute, file int) (c Call, ok bool) {
	c.Conn = -1
	var text []string
	for _, a := range list {
		switch a.name {
		case "time":
			at, err := time.Parse(time.RFC3339Nano, a.value)
			if err != nil {
				return c, false
			}
			c.Time, ok = at.Sub(t.Start).Nanoseconds(), true
			continue
		case "level":
			c.Failed = a.value == "WARN" || a.value == "ERROR"
			continue
		case "msg":
			c.Name = a.value
			text = append(text, a.value)
			continue
		case "qpn", "qp.qpn":
			if n, err := strconv.ParseUint(a.value, 0, 24); err == nil && n > 0 {
				c.Conn = slices.IndexFunc(t.Conns, func(x *Conn) bool {
					return x.A.QPN == uint32(n) && (file == anyFile || x.Files[0] == file) ||
						x.B.QPN == uint32(n) && (file == anyFile || x.Files[1] == file)
				})
			}
		}
		text = append(text, a.name+"="+a.value)
	}
	c.Text = strings.ToValidUTF8(strings.Join(text, " "), "�")
	c.Name = strings.ToValidUTF8(c.Name, "�")
	return c, ok && c.Name != ""
}

// textAttributes takes a line of slog.TextHandler apart.
func textAttributes(line string) (list []attribute) {
	for line != "" {
		name, rest, ok := strings.Cut(line, "=")
		if !ok || strings.ContainsAny(name, " \"") {
			return nil
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil
			}
			value, _ = strconv.Unquote(quoted)
			line = strings.TrimPrefix(rest[len(quoted):], " ")
		} else {
			value, line, _ = strings.Cut(rest, " ")
		}
		list = append(list, attribute{name, value})
	}
	return list
}

// jsonAttributes takes a line of slog.JSONHandler apart; groups become prefixes.
func jsonAttributes(line string) (list []attribute) {
	var m map[string]any
	if json.Unmarshal([]byte(line), &m) != nil {
		return nil
	}
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for k, v := range m {
			if g, ok := v.(map[string]any); ok {
				walk(prefix+k+".", g)
				continue
			}
			list = append(list, attribute{prefix + k, fmt.Sprint(v)})
		}
	}
	walk("", m)
	rank := map[string]int{"time": -3, "level": -2, "msg": -1}
	slices.SortFunc(list, func(a, b attribute) int {
		if d := rank[a.name] - rank[b.name]; d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	return list
}
