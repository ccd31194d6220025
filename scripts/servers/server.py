"""Answers every GET after some work, a thread a connection: python3 server.py PORT."""

import hashlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one write: none of them waits for an acknowledgement.
    wbufsize = -1

    def do_GET(self):
        body = hashlib.pbkdf2_hmac("sha256", b"quell", b"salt", 100).hex().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer.daemon_threads = True
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
