import threading, requests
from http.server import HTTPServer, BaseHTTPRequestHandler
class No(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(401)
    def log_message(self, *_): pass
server = HTTPServer(('127.0.0.1', 8731), No)
threading.Thread(target=server.serve_forever, daemon=True).start()
requests.get('http://127.0.0.1:8731/api/models').raise_for_status()
