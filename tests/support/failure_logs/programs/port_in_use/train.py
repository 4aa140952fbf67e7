import socket
from http.server import HTTPServer, BaseHTTPRequestHandler
taken = socket.create_server(('127.0.0.1', 0))
HTTPServer(('127.0.0.1', taken.getsockname()[1]), BaseHTTPRequestHandler)
