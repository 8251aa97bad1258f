// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"verbena/internal/wire/pcap"
)

const (
	// packetsRequest is the line by which a client asks for packets, once it has the snapshot.
	packetsRequest = "packets\n"
	// packetsTimeout bounds the time for which a client that reads slowly takes the ring's room for
	// new packets, and keeps others from answers.
	packetsTimeout = 10 * time.Second
	// maxHeadBytes bounds the line before the packets.
	maxHeadBytes = 1 << 10
)

// Packets describes the packets that a process sends.
type Packets struct {
	Count int           `json:"packets"`
	Bytes int           `json:"bytes"` // of the capture file
	Span  time.Duration `json:"span_ns"`
}

// asksForPackets reads the request of a client, which has closed the connection if it has none.
func asksForPackets(conn io.ReadWriteCloser) bool {
	b := make([]byte, len(packetsRequest))
	_, err := io.ReadFull(conn, b)
	return err == nil && string(b) == packetsRequest && ownUser(conn)
}

// sendPackets sends the contents of a ring.
func sendPackets(conn io.Writer, ring func() *pcap.Contents) error {
	c := ring()
	defer c.Release()
	out := &pieces{conn, time.Now().Add(packetsTimeout)}
	err := json.NewEncoder(out).Encode(Packets{c.Packets, c.Bytes(), c.Span})
	if err == nil {
		_, err = c.WriteTo(out)
	}
	return err
}

// pieces writes to a client until a time. Each piece has replyTimeout, too: the system waits anew
// for the room of each 32 KiB or so.
type pieces struct {
	conn io.Writer
	end  time.Time
}

func (p *pieces) Write(b []byte) (n int, err error) {
	left := time.Until(p.end)
	if left <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	limitWrite(p.conn, min(left, replyTimeout))
	return p.conn.Write(b)
}

// ErrNoRing is returned for a process that keeps no packets.
var ErrNoRing = errors.New("it keeps no packets: start it with --pcap-ring 64M")

// Dump fetches the newest packets of a process that serves in dir, and gives them to write, as a
// capture file. If the process ends meanwhile, the file ends early: bytes are left in the reader.
func Dump(ctx context.Context, dir string, pid int,
	write func(Packets, *io.LimitedReader) error) error {
	if err := trusted(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	answers, err := askEach(ctx, dir, entries, "")
	if err != nil {
		return err
	}
	found, none := "", false
	for name, s := range answers {
		switch {
		case s.PID != pid:
		case s.Ring == 0: // another container's may have one
			none = true
		case found != "":
			return errors.New("several containers have a process of this number")
		default:
			found = filepath.Join(dir, name+suffix)
		}
	}
	if found == "" && none {
		return ErrNoRing
	}
	if found == "" {
		return errors.New("there is none of this user that has devices open and answers; " +
			"'verbena stat' lists them")
	}
	return fetch(ctx, found, write)
}

func fetch(ctx context.Context, path string, write func(Packets, *io.LimitedReader) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout+packetsTimeout)
	defer cancel()
	conn, err := dial(ctx, path)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in := bufio.NewReader(conn)
	if _, err := readLine(in, maxSnapshotBytes); err != nil {
		return noAnswer(err)
	}
	if _, err := io.WriteString(conn, packetsRequest); err != nil {
		return noAnswer(err)
	}
	var head Packets
	line, err := readLine(in, maxHeadBytes)
	if err == nil {
		err = json.Unmarshal(line, &head)
	}
	if err != nil {
		return noAnswer(err)
	}
	body := io.LimitedReader{R: in, N: int64(head.Bytes)}
	return write(head, &body)
}

// readLine reads a line of at most limit bytes.
func readLine(in *bufio.Reader, limit int) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > limit {
			return line, err
		}
	}
}

func noAnswer(err error) error { return fmt.Errorf("it does not send its packets: %w", err) }
