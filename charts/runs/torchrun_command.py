"""An opaque command, described in Python: the module exports RUN and imports nothing of cdk8s."""

from trainwright.run import Checkpoints, ClaimMount, CommandWorkload, Run, Security
from trainwright.topology import DDP

RUN = Run(
    run="torchrun-command",
    team="research",
    namespace="training",
    cluster="h100-ib",
    image="registry.example.com/research/train@sha256:bca6d13be098a4938d4194efe11cd5bb14289e796daff1392373572e047a35a8",
    topology=DDP(nodes=2, gpus_per_node=8),
    node_pool="h100-spot",
    security=Security(user=1000, read_only_root=True),
    workload=CommandWorkload(command=["torchrun", "/app/train.py", "--epochs", "3"]),
    checkpoints=Checkpoints(by="own"),
    mounts={"/checkpoints": ClaimMount(claim="training-checkpoints")},
)
