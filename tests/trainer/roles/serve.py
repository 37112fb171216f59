"""What the image has at /app/serve.py: a data service, each pod of which serves numbers of its own until it is removed."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOSTS = os.environ["DATA_SERVICE_HOSTS"].split(",")
PLACE = int(os.environ["NODE_RANK"])
assert len(HOSTS) == int(os.environ["NNODES"])


class Shard(BaseHTTPRequestHandler):
    """Every second number, from the pod's own on."""

    def do_GET(self) -> None:
        body = " ".join(str(number) for number in range(PLACE, 10, len(HOSTS))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer((HOSTS[PLACE], 7000), Shard).serve_forever()
