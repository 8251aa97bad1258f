// SPDX-License-Identifier: BSD-2-Clause

// Command multicast sends unreliable datagrams. A member of a multicast group receives the
// datagrams sent to the group, and answers to the sender alone.
//
//	multicast -bind 127.0.0.1
//	multicast -bind 127.0.0.1 -send hello
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
)

func main() {
	log.SetFlags(0)
	bind := flag.String("bind", "127.0.0.1", "send and receive at this local `address`")
	group := flag.String("group", "239.1.2.3", "the multicast `address`")
	text := flag.String("send", "", "send this `text` to the group, instead of being a member")
	answers := flag.Int("answers", 1, "number of answers to wait for")
	wait := flag.Duration("wait", 2*time.Second, "longest time to wait")
	flag.Parse()
	ctx := context.Background()
	err := func() error {
		local, err := netip.ParseAddr(*bind)
		if err != nil {
			return err
		}
		to, err := netip.ParseAddr(*group)
		if err != nil {
			return err
		}
		if *text == "" {
			return member(ctx, local, to)
		}
		ctx, cancel := context.WithTimeout(ctx, *wait)
		defer cancel()
		return send(ctx, local, to, *text, *answers)
	}()
	if err != nil {
		log.Fatal(err)
	}
}

// member answers each datagram to the group.
func member(ctx context.Context, local, group netip.Addr) error {
	e, err := newEndpoint(local)
	if err != nil {
		return err
	}
	defer e.close()
	if _, err := e.join(ctx, group, rdmacm.FullMember); err != nil {
		return err
	}
	fmt.Println("member of", group)
	return e.receive(ctx, func(wc ib.WC, grh, text []byte) error {
		fmt.Printf("%s\n", text)
		// The completion and the header before the datagram say where the sender is.
		ah, err := e.pd.CreateAHFromWC(&wc, grh, 1)
		if err != nil {
			return err
		}
		return errors.Join(e.send(ah, wc.SrcQP, fmt.Appendf(nil, "%d bytes received", len(text))),
			ah.Destroy())
	})
}

// send sends one datagram to the group and prints the answers. Datagrams may be lost, so it waits
// for them no longer than ctx.
func send(ctx context.Context, local, group netip.Addr, text string, answers int) error {
	e, err := newEndpoint(local)
	if err != nil {
		return err
	}
	defer e.close()
	to, err := e.join(ctx, group, rdmacm.SendOnlyFullMember)
	if err != nil {
		return err
	}
	ah, err := e.pd.CreateAH(&to.AH)
	if err != nil {
		return err
	}
	if err := errors.Join(e.send(ah, to.QPN, []byte(text)), ah.Destroy()); err != nil {
		return err
	}
	got := 0
	err = e.receive(ctx, func(_ ib.WC, _, text []byte) error {
		fmt.Printf("%s\n", text)
		if got++; got == answers {
			return errDone
		}
		return nil
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return fmt.Errorf("%d of %d answers: %w", got, answers, err)
}

var errDone = errors.New("done") // ends endpoint.receive
