"""Rules on where the metrics of a run go."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.rules.context import Context
from trainwright_trainer.contract.sink import WandB

WANDB_KEY = "WANDB_API_KEY"


def key_of_weights_and_biases(context: Context) -> Iterator[Finding]:
    """Its package asks for the key when rank 0 opens the run, and the trainer goes on without a sink that fails."""
    run, work = context.run, context.run.trainer
    for index, sink in enumerate(work.metrics if work else ()):
        if isinstance(sink, WandB) and sink.mode == "online" and WANDB_KEY not in run.env:
            instead = "" if run.checkpoints.store else ", or `mode: offline` and sync them later"
            yield found(
                "TW213",
                context.locate.run(f"/workload/metrics/{index}"),
                f"metrics go to Weights & Biases, and env has no {WANDB_KEY}",
                f"write `env: {{{WANDB_KEY}: {{secret: NAME, key: KEY}}}}`{instead}",
            )


def beside_the_checkpoints(context: Context) -> Iterator[Finding]:
    """Files that grow while a run goes on, where only whole objects can be written."""
    run, work = context.run, context.run.trainer
    for index, sink in enumerate(work.metrics if work and run.checkpoints.store else ()):
        if not isinstance(sink, WandB) or sink.mode == "offline":
            where = context.locate.run(f"/workload/metrics/{index}")
            message = f"{sink.to} files lie beside the checkpoints and grow, and an object store takes whole objects only"
            yield found("TW213", where, message, "remove it, or keep checkpoints on a claim; Weights & Biases online works")


RUN = (key_of_weights_and_biases, beside_the_checkpoints)
