// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"verbena/rsocket"
)

// gRPC's own interoperability tests, client and server, over streams of RDMA. A case that fails
// ends the process with its reason.
func TestInterop(t *testing.T) {
	for _, network := range []string{"roce", "trp"} {
		t.Run(network, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			l, err := rsocket.Listen(network, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			srv := grpc.NewServer()
			testgrpc.RegisterTestServiceServer(srv, interop.NewTestServer())
			defer srv.Stop()
			go srv.Serve(l)

			var streams atomic.Int32
			dial := func(ctx context.Context, addr string) (net.Conn, error) {
				streams.Add(1)
				return rsocket.DialContext(ctx, network, addr)
			}
			conn, err := grpc.NewClient("passthrough:"+l.Addr().String(), grpc.WithContextDialer(dial),
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := testgrpc.NewTestServiceClient(conn)
			for _, do := range []func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
				interop.DoEmptyUnaryCall, interop.DoLargeUnaryCall, interop.DoClientStreaming,
				interop.DoServerStreaming, interop.DoPingPong, interop.DoEmptyStream,
				interop.DoTimeoutOnSleepingServer, interop.DoCancelAfterBegin,
				interop.DoCancelAfterFirstResponse, interop.DoCustomMetadata,
				interop.DoStatusCodeAndMessage, interop.DoSpecialStatusMessage,
			} {
				do(ctx, client)
			}
			interop.DoUnimplementedMethod(ctx, conn)
			interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
			if n := streams.Load(); n != 1 {
				t.Errorf("%d streams for one client: one broke", n)
			}
		})
	}
}
