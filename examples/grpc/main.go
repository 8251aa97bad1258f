// SPDX-License-Identifier: BSD-2-Clause

// Command grpc is gRPC over RDMA: a server whose health a client asks for, and watches until it
// ends. Only the listener and the function that dials differ from gRPC over TCP.
//
//	grpc -listen 127.0.0.1:7471
//	grpc -connect 127.0.0.1:7471
//
// It is a module of its own, as google.golang.org/grpc is no dependency of Verbena.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"verbena/rsocket"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:7471", "serve at this `address` of this host")
	connect := flag.String("connect", "", "watch the server at this `address`")
	network := flag.String("network", "roce", "roce, iwarp, trp or ntb")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *connect != "" {
		err = watch(ctx, *network, *connect)
	} else {
		err = serve(ctx, *network, *listen)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends, and notifies the clients of its end.
func serve(ctx context.Context, network, addr string) error {
	l, err := rsocket.Listen(network, addr)
	if err != nil {
		return err
	}
	srv, state := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, state)
	context.AfterFunc(ctx, func() {
		state.Shutdown() // the clients that watch see it, and end
		srv.GracefulStop()
	})
	fmt.Println("listening on", l.Addr())
	return srv.Serve(l)
}

// watch prints the states of a server, until it serves no more.
func watch(ctx context.Context, network, addr string) error {
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		return rsocket.DialContext(ctx, network, addr)
	}
	conn, err := grpc.NewClient("passthrough:"+addr, grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	server := grpc_health_v1.NewHealthClient(conn)
	if _, err := server.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		return err
	}
	states, err := server.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	for {
		state, err := states.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		fmt.Println(state.Status)
		if state.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
	}
}
