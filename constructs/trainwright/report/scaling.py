"""The table of docs/scaling.md: what :mod:`trainwright.plan.scaling` says of models and networks that people have."""

from __future__ import annotations

from itertools import product

from trainwright.cluster.model import Fabric, NodePool
from trainwright.plan.model import BatchPlan
from trainwright.plan.scaling import GPUS, scaling
from trainwright.report.plan import share
from trainwright.report.table import table
from trainwright.run import TrainerWorkload
from trainwright.topology.sharding import Sharding
from trainwright_trainer.contract.model import Llama

MODELS = {
    "1 B": Llama(architecture="llama", vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                 num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192, tie_word_embeddings=True),
    "8 B": Llama(architecture="llama", vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                 num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192),
    "70 B": Llama(architecture="llama", vocab_size=128256, hidden_size=8192, intermediate_size=28672, num_hidden_layers=80,
                  num_attention_heads=64, num_key_value_heads=8, max_position_embeddings=8192),
}
SHARDINGS = {
    "DDP": Sharding(),
    "FSDP2": Sharding(stage=3, weights=8, gradients=8, optimizer=8, engine="fsdp2"),
    "ZeRO-3 (DeepSpeed)": Sharding(stage=3, weights=8, gradients=8, optimizer=8, engine="deepspeed"),
}
FABRICS = {
    "8 x 400 Gb/s": Fabric(kind="infiniband", links=8, gigabits_per_link=400),
    "1 x 100 Gb/s": Fabric(kind="tcp", links=1, gigabits_per_link=100),
}
MICRO, ACCUMULATION, TOKENS = 4, 1, 2048


def scaling_table() -> str:
    """Efficiency on nodes of eight H100 at 8 to 4,096 GPUs, in Markdown."""
    batch = BatchPlan(MICRO, ACCUMULATION, 8, MICRO * ACCUMULATION * 8)
    rows = []
    for (size, model), (name, sharding), (links, fabric) in product(MODELS.items(), SHARDINGS.items(), FABRICS.items()):
        if (size, name) == ("70 B", "DDP"):
            continue  # fits no GPU
        found = scaling(_work(model), batch, sharding, _pool(fabric))
        assert found is not None  # noqa: S101 - the GPU and the model are known
        rows.append([size, name, links, *map(share, found)])
    return table(["Llama", "topology", "network of a node", *(f"{gpus:,} GPUs" for gpus in GPUS)], rows)


def _work(model: Llama) -> TrainerWorkload:
    return TrainerWorkload.model_validate({
        "kind": "trainer", "task": "causal-lm", "model": model.model_dump(exclude_none=True), "precision": "bf16",
        "data": {"source": "tokens", "path": "/data/tokens", "sequence_length": TOKENS, "dtype": "uint32"}, "epochs": 1,
    })


def _pool(fabric: Fabric) -> NodePool:
    gpu = {"model": "H100", "memory": "80Gi", "per_node": 8}
    return NodePool.model_validate({"gpu": gpu, "fabric": fabric.model_dump(), "cpus": 180, "memory": "1800Gi"})
