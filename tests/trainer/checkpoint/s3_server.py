"""Run by conftest.py: moto's S3 server on a free port of the loopback, with the bucket ``checkpoints``. Says its address.

One request at a time: moto looks and writes in two steps, and S3 does a conditional put in one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "checkpoints"
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def one_at_a_time(application: Application, *, knows_conditions: bool) -> Application:
    turn = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not knows_conditions and "HTTP_IF_NONE_MATCH" in environ:
            start_response("501 Not Implemented", [("Content-Type", "application/xml")])
            return [b"<Error><Code>NotImplemented</Code><Message>A header implies what is not implemented</Message></Error>"]
        with turn:
            return list(application(environ, start_response))

    return serve


def main(knows_conditions: bool) -> None:
    application = one_at_a_time(DomainDispatcherApplication(create_backend_app), knows_conditions=knows_conditions)
    server = make_server("127.0.0.1", 0, application, threaded=True)

    def end_with_standard_input() -> None:
        sys.stdin.read()
        server.shutdown()

    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=end_with_standard_input, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main(knows_conditions=sys.argv[1:] != ["plain"])
