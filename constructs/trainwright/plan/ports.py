"""What the pods of a run listen on."""

from __future__ import annotations

import hashlib

from trainwright.handshake import Ports
from trainwright.run import Run
from trainwright_trainer.contract.layout import CONTROL_PORT, HTTP_PORT, RENDEZVOUS_PORT

FIRST, LAST = 20_000, 29_999
"""Below the ports of NodePort services (30000 to 32767) and those that Linux gives to outgoing connections (from 32768)."""
EACH = 4
SSH_PORT = 2222
"""Of the non-root sshd in the images of MPI (mpi-operator, build/base)."""


def plan_ports(run: Run) -> Ports:
    """The usual ones in a network of the pod's own; on the node's network a block that follows from the run's name."""
    if not run.host_network:
        return Ports(rendezvous=RENDEZVOUS_PORT, control=CONTROL_PORT, http=HTTP_PORT, ssh=SSH_PORT)
    blocks = (LAST + 1 - FIRST) // EACH
    number = int.from_bytes(hashlib.sha256(f"{run.namespace}/{run.run}".encode()).digest()[:8]) % blocks
    first = FIRST + EACH * number
    return Ports(rendezvous=first, control=first + 1, http=first + 2, ssh=first + 3)
