"""`python -m ray.scripts.scripts start`: a head that counts its nodes, or a node that joins it."""

import argparse
import socket
import socketserver
import sys

joined = 1


class Head(socketserver.StreamRequestHandler):
    def handle(self):
        global joined
        word = self.rfile.readline()
        if word == b"count\n":
            self.wfile.write(f"{joined}\n".encode())
        if word == b"join\n":
            joined += 1
            self.rfile.read()
            joined -= 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--head", action="store_true")
    parser.add_argument("--node-ip-address")
    parser.add_argument("--port", type=int)
    parser.add_argument("--address")
    given, _ = parser.parse_known_args(sys.argv[2:])
    if given.head:
        socketserver.ThreadingTCPServer.daemon_threads = True
        with socketserver.ThreadingTCPServer((given.node_ip_address, given.port), Head) as head:
            head.serve_forever()
    host, _, port = given.address.rpartition(":")
    with socket.create_connection((host, int(port))) as link:
        link.sendall(b"join\n")
        link.recv(1)
        # As Ray's own: a node that has lost its head goes on for a while.
        socket.create_server(("127.0.0.1", 0)).accept()


main()
