"""Meeting program of one pod: ``python -m trainwright_trainer.supervisor.launchers.torch_rendezvous``, started by its supervisor, which loads no torch itself.

It holds this node's seat in torch's dynamic rendezvous, and the store of the run in the pod that hosts it. The ranks are children
of the supervisor, which hears their results itself: torch's elastic agent would fold all of them into one exit status, and give
ranks 30 seconds to end whatever the pod's grace period is (torch/distributed/elastic/agent/server/local_elastic_agent.py).
"""

from __future__ import annotations

import os
import select
import socket
import sys

from trainwright_trainer.contract.rendezvous import ElasticRendezvous
from trainwright_trainer.rank.messages import LINK_FD_ENV
from trainwright_trainer.rank.specification import read_specification, specification_path
from trainwright_trainer.supervisor.launchers.elastic_messages import (
    ADDRESS_ENV,
    HOST_ENV,
    FromMeetingMessage,
    NotMet,
    StoreLost,
    Waiting,
)

POLL_SECONDS = 1.0
_BYTES = 4096


def main() -> int:
    """Meet each time that the supervisor says so, until it hangs up."""
    spec = read_specification(specification_path(os.environ)).spec
    rendezvous = spec.world.rendezvous
    if not isinstance(rendezvous, ElasticRendezvous):
        raise SystemExit("this program is for rendezvous c10d")
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousError

    from trainwright_trainer.supervisor.launchers.torch_rendezvous.meeting import Meeting

    line = socket.socket(fileno=int(os.environ[LINK_FD_ENV]))
    line.set_inheritable(False)
    meeting = Meeting(spec, rendezvous, os.environ[ADDRESS_ENV], hosts_store=HOST_ENV in os.environ)
    watching = False
    while True:
        if select.select([line], [], [], POLL_SECONDS)[0]:
            if not line.recv(_BYTES):
                return 0
            try:
                _say(line, meeting.join())
                watching = True
            except RendezvousError as error:
                lost = meeting.reached and isinstance(error, RendezvousConnectionError)
                _say(line, StoreLost(why=_first_line(error)) if lost else NotMet(why=_first_line(error)))
        elif watching:
            try:
                if nodes := meeting.waiting():
                    _say(line, Waiting(nodes=nodes))
                    watching = False
            except RendezvousError as error:
                _say(line, StoreLost(why=_first_line(error)))
                watching = False


def _say(line: socket.socket, message: FromMeetingMessage) -> None:
    line.sendall(message.model_dump_json().encode() + b"\n")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or "too few came"


if __name__ == "__main__":
    sys.exit(main())
