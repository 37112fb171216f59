"""Meeting: one node's seat in torch's dynamic rendezvous."""

from __future__ import annotations

import os
import secrets
import time

from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousHandler, RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from trainwright_trainer.contract.rendezvous import ElasticRendezvous
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.supervisor.launchers.elastic_messages import Met

STORE_SECONDS = 10
"""For one answer of the store."""
RETRY_SECONDS = 1.0
ATTEMPT_KEY = "trainwright/attempt"

# A node that joins later needs the address of rank 0, which torch publishes in the first round only where stores are shared
# (dynamic_rendezvous.py, next_rendezvous).
os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"


class Meeting:
    """Its handler says that this node is alive, from a thread of its own.

    Args:
        address: Of this node, for the others.
        hosts_store: Whether the store is here.
    """

    def __init__(self, spec: RunSpec, rendezvous: ElasticRendezvous, address: str, *, hosts_store: bool) -> None:
        self._seconds = int(spec.lifecycle.peer_wait_seconds)
        self._parameters = RendezvousParameters(
            backend="c10d", run_id=spec.identity, local_addr=address,
            endpoint=f"{address if hosts_store else rendezvous.host}:{rendezvous.port}",
            min_nodes=rendezvous.min_nodes, max_nodes=rendezvous.max_nodes,
            is_host=str(hosts_store), read_timeout=STORE_SECONDS, join_timeout=self._seconds,
            last_call_timeout=rendezvous.last_call_seconds, keep_alive_interval=rendezvous.keep_alive_seconds,
            keep_alive_max_attempt=rendezvous.keep_alive_attempts,
        )
        self._handler: RendezvousHandler | None = None

    @property
    def reached(self) -> bool:
        """Whether this node ever was at the store."""
        return self._handler is not None

    def join(self) -> Met:
        """Leave the present round and join the next. Raises torch's ``RendezvousError`` where none comes about in time."""
        if self._handler is None:
            self._handler = self._reach()
        info = self._handler.next_rendezvous()
        where = info.bootstrap_store_info
        if where is None:
            raise AssertionError("torch tells where rank 0 is unless stores are shared")
        if info.rank == 0:
            info.store.set(ATTEMPT_KEY, secrets.token_hex(6))
        attempt = info.store.get(ATTEMPT_KEY).decode()
        return Met(node=info.rank, nodes=info.world_size, host=where.master_addr, port=where.master_port, attempt=attempt)

    def waiting(self) -> int:
        """Nodes that wait to be let in. Raises torch's ``RendezvousError`` where the store is gone."""
        return 0 if self._handler is None else self._handler.num_nodes_waiting()

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
