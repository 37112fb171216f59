"""What mpirun starts in a rank's place: ``stand_in.py PORT`` gives the test its environment, and stays until the rank has ended.

The rank itself is forked where torch and Horovod are imported already. mpirun gets a 0 whatever its code, for it kills the other
ranks at the first that is not.
"""

from __future__ import annotations

import json
import os
import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as test:
    test.sendall(json.dumps(dict(os.environ)).encode() + b"\n")
    test.recv(1)
