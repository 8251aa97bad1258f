// SPDX-License-Identifier: BSD-2-Clause

package requests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

const requestBytes = 64

// side is one process of a load.
type side struct {
	addr    string
	value   int // bytes of an answer
	clients int // connections
	depth   int // outstanding requests of each
	length  time.Duration
	in      *bufio.Reader
	out     io.Writer
}

// Run is the process that args describe: how, which side, address, port, value,
// clients, depth, seconds.
func Run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var numbers [3]int
	for i := range numbers {
		n, err := strconv.Atoi(args[4+i])
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number", args[4+i])
		}
		numbers[i] = n
	}
	length, err := time.ParseDuration(args[7] + "s")
	if err != nil {
		return err
	}
	s := &side{addr: args[2] + ":" + args[3], value: numbers[0], clients: numbers[1],
		depth: numbers[2], length: length, in: bufio.NewReader(in), out: out}
	switch args[0] + " " + args[1] {
	case "tcp server":
		return s.serveTCP()
	case "tcp client":
		return s.askTCP()
	case "verbs server":
		return s.serveVerbs(ctx)
	case "verbs client":
		return s.askVerbs(ctx)
	}
	return fmt.Errorf("there is no %s %s", args[0], args[1])
}

func (s *side) say(word string, count int64, d time.Duration) {
	fmt.Fprintln(s.out, word, count, d.Seconds())
}

// await waits for a line of the caller's.
func (s *side) await() error {
	_, err := s.in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
