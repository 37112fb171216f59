"""One node's seat in torch's dynamic rendezvous: a program that the pod's supervisor starts, which has no torch itself.

It runs by a Python that has torch, that of the scripts where the supervisor was brought along, and needs nothing else. It holds
this node's seat, and the store of the run in the pod that hosts it. The ranks are children of the supervisor, which hears their
results itself: torch's elastic agent would fold all of them into one exit status, and give ranks 30 seconds to end whatever the
pod's grace period is (torch/distributed/elastic/agent/server/local_elastic_agent.py).
"""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import sys
import time
from typing import Any, Protocol

from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousHandler,
    RendezvousParameters,
)
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from trainwright_trainer.run.link import LINK_FD_ENV, MEETING_ENV

STORE_SECONDS = 10
"""For one answer of the store."""
RETRY_SECONDS = 1.0
ATTEMPT_KEY, DONE_KEY, HEARD_KEY = "trainwright/attempt", "trainwright/done", "trainwright/heard"
"""Of a round: its nonce, how many nodes are done, and how many of them know that all are."""
HOST_POLLS = 10
"""In which the pod of the store lets the others hear that all are done, before it leaves."""
POLL_SECONDS = 1.0
MISSED_POLLS = 3
"""In which a node is not there, before it counts as lost: one that ends in order leaves the round while others still end."""
_BYTES = 4096

# A node that joins later needs the address of rank 0, which torch publishes in the first round only where stores are shared
# (dynamic_rendezvous.py, next_rendezvous).
os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"


class Counters(Protocol):
    """What is needed of torch's store."""

    def add(self, key: str, amount: int, /) -> int:
        """The sum after this."""


class NodeSeat:
    """This node in the rendezvous. torch's handler says that it is alive, from a thread of its own.

    Args:
        parameters: Of torch's handler.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._seconds: int = parameters["join_timeout"]
        self._parameters = RendezvousParameters(backend="c10d", read_timeout=STORE_SECONDS, **parameters)
        self._handler: RendezvousHandler | None = None
        self._hosts_store = parameters["is_host"] == "True"
        self._round: Counters | None = None
        """What nodes of the round alone look into."""
        self._nodes, self._polls, self._heard = 0, 0, False

    @property
    def reached(self) -> bool:
        """Whether this node ever was at the store."""
        return self._handler is not None

    def join(self) -> dict[str, Any]:
        """Leave the present round and join the next, and say what came about.

        Raises torch's ``RendezvousError`` where none does in time.
        """
        if self._handler is None:
            self._handler = self._reach()
        info = self._handler.next_rendezvous()
        where = info.bootstrap_store_info
        if where is None:
            raise AssertionError("torch tells where rank 0 is unless stores are shared")
        if info.rank == 0:
            info.store.set(ATTEMPT_KEY, secrets.token_hex(6))
        attempt = info.store.get(ATTEMPT_KEY).decode()
        self._round, self._nodes, self._polls, self._heard = info.store, info.world_size, 0, False
        met = {"node": info.rank, "nodes": info.world_size, "host": where.master_addr, "port": where.master_port}
        return {"type": "met", "attempt": attempt, **met}

    def done(self) -> None:
        """This node is done. Raises torch's ``RendezvousError`` where the store is gone."""
        self._count(DONE_KEY, 1)

    def all_done(self) -> bool:
        """Whether every node of the round is, and may leave. Raises as :meth:`done` does."""
        if self._count(DONE_KEY) < self._nodes:
            return False
        heard = self._count(HEARD_KEY, 0 if self._heard else 1)
        self._heard, self._polls = True, self._polls + 1
        return not self._hosts_store or heard >= self._nodes or self._polls > HOST_POLLS

    def _count(self, key: str, more: int = 0) -> int:
        if self._round is None:
            raise RendezvousConnectionError("there was no round")
        try:
            return int(self._round.add(key, more))
        except RuntimeError as error:  # torch's DistError too
            raise RendezvousConnectionError(_first_line(error)) from error

    def waiting(self) -> int:
        """Nodes that wait to be let in. Raises torch's ``RendezvousError`` where the store is gone."""
        return 0 if self._handler is None else self._handler.num_nodes_waiting()

    def missing(self, nodes: int) -> int:
        """How many of a round's nodes are not in it any more, as :meth:`waiting` has just seen it.

        Each node's handler drops those whose signs of life are too old (``_BackendRendezvousStateHolder._sanitize``, torch 2.13),
        and says so nowhere but in this state.
        """
        holder = getattr(self._handler, "_state_holder", None)
        return 0 if holder is None else max(0, nodes - len(holder.state.participants))

    def _reach(self) -> RendezvousHandler:
        """Connect to the store, whose pod may still be pending."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                return get_rendezvous_handler(self._parameters)
            except RendezvousConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)


def main() -> int:
    """Join the rendezvous each time that the supervisor says so, until it closes the line."""
    line = socket.socket(fileno=int(os.environ[LINK_FD_ENV]))
    line.set_inheritable(False)
    seat = NodeSeat(json.loads(os.environ[MEETING_ENV]))
    watching, done, nodes, missed = False, False, 0, 0
    while True:
        if select.select([line], [], [], POLL_SECONDS)[0]:
            said = line.recv(_BYTES)
            if not said:
                return 0
            try:
                if json.loads(said.splitlines()[-1])["type"] == "done":
                    seat.done()
                    done = True
                    continue
                met = seat.join()
                _say(line, met)
                watching, done, nodes, missed = True, False, met["nodes"], 0
            except RendezvousError as error:
                lost = seat.reached and isinstance(error, RendezvousConnectionError)
                _say(line, {"type": "store_lost" if lost else "not_met", "why": _first_line(error)})
        elif watching or done:
            try:
                if done and seat.all_done():
                    _say(line, {"type": "all_done"})
                    watching = done = False
                    continue
                if (waiting := seat.waiting()) and watching:
                    _say(line, {"type": "waiting", "nodes": waiting})
                    watching = False
                missing = seat.missing(nodes)
                missed = missed + 1 if missing else 0
                if missed == MISSED_POLLS:
                    _say(line, {"type": "gone", "nodes": missing})
            except RendezvousError as error:
                _say(line, {"type": "store_lost", "why": _first_line(error)})
                watching = done = False


def _say(line: socket.socket, message: dict[str, Any]) -> None:
    """One of the messages of ``supervisor/launchers/elastic.py``."""
    line.sendall(json.dumps(message).encode() + b"\n")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or "too few came"


if __name__ == "__main__":
    sys.exit(main())
