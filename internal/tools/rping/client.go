// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"verbena/ib"
	"verbena/internal/tools/cli"
	"verbena/verbs"
)

var errMismatch = errors.New("data mismatch: the data that came back differ from those sent")

// pingClient is the client's side of the ping loop.
func (s *session) pingClient(ctx context.Context, progress *cli.Progress) error {
	defer progress.Done()
	for ping := 0; s.o.count == 0 || ping < s.o.count; ping++ {
		fillPing(s.source.bytes(), ping)
		if err := s.advertise(s.source, ib.AccessRemoteRead); err != nil {
			return err
		}
		if _, err := s.awaitInfo(ctx); err != nil {
			return err
		}
		if err := s.advertise(s.data, ib.AccessRemoteWrite|ib.AccessLocalWrite); err != nil {
			return err
		}
		if _, err := s.awaitInfo(ctx); err != nil {
			return err
		}
		if s.o.validate && !bytes.Equal(s.source.bytes(), s.data.bytes()) {
			return errMismatch
		}
		if s.o.verbose {
			fmt.Fprintf(s.out, "ping data: %s\n", text(s.data.bytes()))
		}
		progress.Set(int64(ping + 1))
	}
	return nil
}

// advertise sends the peer a buffer's address, after making a key for it.
func (s *session) advertise(k keeper, access ib.Access) error {
	info, wrs, err := k.open(access, s.o.serverInv)
	if err != nil {
		return err
	}
	info.Size = uint32(s.o.size)
	if len(wrs) > 0 {
		if err := s.post(wrs...); err != nil {
			return err
		}
	}
	return s.send(info, verbs.SendWR{})
}
