"""A TCP echo over plain sockets: python3 socket.py server|client ADDR PORT."""
import socket
import sys

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
size = 1000000
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
if role == "server":
    s.bind((address, port))
    s.listen(1)
    print("listening", flush=True)
    c, _ = s.accept()
    left = size
    while left:
        b = c.recv(min(left, 65536))
        c.sendall(b)
        left -= len(b)
    c.recv(1)
    print("done")
else:
    s.connect((address, port))
    data = bytes(i * 7 % 256 for i in range(size))
    back = b""
    for at in range(0, size, 10000):
        s.sendall(data[at : at + 10000])
        while len(back) < at + 10000:
            b = s.recv(65536)
            assert b, "the peer has gone"
            back += b
    assert back == data
    print("echoed", len(back), "bytes")
