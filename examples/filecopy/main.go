// SPDX-License-Identifier: BSD-2-Clause

// Command filecopy sends a file to another host. The sender registers the file's bytes and says
// where they are. The receiver fetches them by READ, several blocks at a time, and writes each
// block as it comes.
//
//	filecopy -listen 192.0.2.1:7471 -dir /tmp
//	filecopy -connect 192.0.2.1:7471 FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:7471", "receive files at this `address`")
	dir := flag.String("dir", ".", "leave received files in this `directory`")
	connect := flag.String("connect", "", "send the file to this `address`")
	flag.Parse()
	var err error
	switch {
	case *connect == "" && flag.NArg() == 0:
		err = receive(context.Background(), *listen, *dir)
	case *connect != "" && flag.NArg() == 1:
		err = send(context.Background(), *connect, flag.Arg(0))
	default:
		fmt.Fprintln(os.Stderr, "usage: filecopy -listen ADDR [-dir DIR] "+
			"| filecopy -connect ADDR FILE")
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// send offers a file and waits for the receiver's answer: the reason of a failure, or nothing.
func send(ctx context.Context, addr, name string) (err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	o := offer{Name: filepath.Base(name), Size: int64(len(data))}
	if len(data) > 0 {
		mr, err := c.RegMR(data, ib.AccessRemoteRead)
		if err != nil {
			return err
		}
		o.Addr, o.RKey = mr.Addr(), mr.RKey()
	}
	if err := c.send(o); err != nil {
		return err
	}
	var a answer
	if err := c.receive(c.ctx, &a); err != nil {
		return err
	}
	if a.Failure != "" {
		return errors.New("the receiver: " + a.Failure)
	}
	fmt.Println(len(data), "bytes sent")
	return nil
}

// receive takes one file from each sender.
func receive(ctx context.Context, addr, dir string) error {
	var prepared conn
	l, err := rdmacm.ListenAddr(addr, &rdmacm.Options{Prepare: prepared.prepare})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("listening on", l.Addr())
	for {
		c, err := accept(ctx, l, &prepared)
		if err != nil {
			return err
		}
		go func() {
			name, err := take(c, dir)
			if err = errors.Join(err, c.close()); err != nil {
				log.Print(err)
			} else {
				fmt.Println("received", name)
			}
		}()
	}
}

// take answers a sender's offer.
func take(c *conn, dir string) (name string, err error) {
	var o offer
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
	defer cancel()
	if err := c.receive(ctx, &o); err != nil {
		return "", err
	}
	if name, err = keep(c, o, dir); err != nil {
		return "", errors.Join(err, c.send(answer{err.Error()}))
	}
	if err := c.send(answer{}); err != nil {
		return "", err
	}
	<-c.ctx.Done() // the sender disconnects when it has the answer
	return name, nil
}

// keep fetches a file. The file has another name until it is complete.
func keep(c *conn, o offer, dir string) (name string, err error) {
	if !filepath.IsLocal(o.Name) || filepath.Base(o.Name) != o.Name {
		return "", fmt.Errorf("%q is not the name of a file", o.Name)
	}
	f, err := os.CreateTemp(dir, ".filecopy-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name()) // fails once the file has its final name
	if err := errors.Join(fetch(c, o, f), f.Close()); err != nil {
		return "", err
	}
	name = filepath.Join(dir, o.Name)
	return name, os.Rename(f.Name(), name)
}

const (
	blockSize = 1 << 20
	blocks    = 8 // READs on their way at once
)

// fetch reads the file in blocks. It posts the READ of the next block into the memory of one that
// has been written.
func fetch(c *conn, o offer, f *os.File) error {
	// Over iWARP the memory of a READ needs both rights.
	mr, err := c.RegMR(make([]byte, blocks*blockSize), ib.AccessLocalWrite|ib.AccessRemoteWrite)
	if err != nil {
		return err
	}
	block := func(n int64) (at, length int) {
		return int(n%blocks) * blockSize, int(min(blockSize, o.Size-n*blockSize))
	}
	posted, total := int64(0), (o.Size+blockSize-1)/blockSize
	for done := int64(0); done < total; done++ {
		for ; posted < min(total, done+blocks); posted++ {
			at, length := block(posted)
			_, err := c.QP().PostSend(verbs.SendWR{
				Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: []ib.SGE{mr.SGE(at, length)},
				RemoteAddr: o.Addr + uint64(posted)*blockSize, RKey: o.RKey,
			})
			if err != nil {
				return err
			}
		}
		if _, err := c.await(c.ctx, c.SendCQ); err != nil { // READs complete in order
			return err
		}
		at, length := block(done)
		if _, err := f.WriteAt(mr.Bytes()[at:at+length], done*blockSize); err != nil {
			return err
		}
	}
	return nil
}
