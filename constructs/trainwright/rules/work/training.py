"""Rules in training terms: the work and its engine, batch, learning rate, versions."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.run import BoostingWorkload, CommandWorkload, Run, ScriptWorkload
from trainwright.units import counted
from trainwright_trainer.contract.data import ImageFolder
from trainwright_trainer.contract.engine import CAPABILITIES, ENGINE_RENDEZVOUS, cannot_build
from trainwright_trainer.contract.model import ResNet
from trainwright_trainer.contract.training import SGD, AdamW, CheckpointSettings
from trainwright_trainer.contract.versions import KNOWN_VERSIONS

LARGE_SCALING = 4.0
"""Growth of the learning rate from which a missing warm-up is worth a finding (Goyal et al. 2017, section 2.2)."""


def work_fits_topology(context: Context) -> Iterator[Finding]:
    """Trees need XGBoost's ranks, networks need others, and pods that do not communicate train nothing together."""
    run = context.run
    where, boosts = context.locate.run("/topology/kind"), run.topology.needs().rendezvous is Rendezvous.DMLC_TRACKER
    if run.topology.only_commands and not isinstance(run.workload, CommandWorkload):
        message = f"topology {run.topology.kind} does not fit workload {run.workload.kind}: {run.topology.only_commands}"
        yield found("TW210", where, message, "write `workload: {kind: command, command: […]}`")
    elif isinstance(run.workload, BoostingWorkload) and not boosts:
        message = f"workload boosting grows trees, and topology {run.topology.kind} trains networks"
        yield found("TW210", where, message, "write `topology: {kind: xgboost, nodes: N, gpus_per_node: 0}`")
    elif run.trainer and boosts:
        message = "topology xgboost grows trees, and workload trainer trains a network"
        yield found("TW210", where, message, "write `workload: {kind: boosting, …}`, or use another topology")


def engine_fits(context: Context) -> Iterator[Finding]:
    """Models that the engine cannot build, and ways to rendezvous that it does not know."""
    run, work, engine = context.run, context.run.trainer, context.run.topology.engine
    if work is None or engine is None:
        return
    rendezvous = run.topology.needs().rendezvous.value
    if rendezvous not in ENGINE_RENDEZVOUS[engine]:
        message = f"engine {engine} cannot train under rendezvous {rendezvous}"
        fix = f"use a topology whose rendezvous is {' or '.join(ENGINE_RENDEZVOUS[engine])}"
        yield found("TW210", context.locate.run("/topology"), message, fix)
    if problem := cannot_build(engine, work.model):
        message, _, fix = problem.partition("; ")
        yield found("TW210", context.locate.run("/workload/model/architecture"), message, fix)
    for setting, instead in run.unread_by(engine):
        pointer = setting.split()[0].replace(".", "/")
        where = context.locate.run(f"/{pointer}" if pointer.startswith("checkpoints/") else f"/workload/{pointer}")
        yield found("TW210", where, f"engine {engine} does not read {setting}", instead)


def engine_can_resize(context: Context) -> Iterator[Finding]:
    """Nodes that come and go leave checkpoints of another number of ranks."""
    run, engine = context.run, context.run.topology.engine
    if run.trainer and engine and run.topology.needs().elastic and not CAPABILITIES[engine].reshards:
        message = f"engine {engine} cannot load a checkpoint at another number of ranks, and the topology is elastic"
        yield found("TW210", context.locate.run("/topology/elastic"), message, "remove topology.elastic")


def complete(context: Context) -> Iterator[Finding]:
    """Our trainer needs a batch and a learning rate."""
    run = context.run
    for key, form in (("batch", "batch: {micro: …}"), ("learning_rate", "learning_rate: {base: …}")):
        if run.trainer and getattr(run, key) is None:
            yield found("TW201", context.locate.run("/workload"), f"workload trainer needs {key}", f"add `{form}` to the run")


def without_effect(context: Context) -> Iterator[Finding]:
    """Fields that only our trainer reads: a script or a command has arguments of its own, and trees have no batch. The plan reads
    batch and rate of a script that says what it trains.
    """
    run, work = context.run, context.run.workload
    if run.trainer:
        return
    fields = [key for key in ("batch", "learning_rate") if getattr(run, key) is not None and run.trained is None]
    unread = {"trainer": ("save",), "script": ("every", "every_steps", "save", "failed_saves")}
    saving = unread.get(run.saved_by, ("every", *CheckpointSettings.model_fields))
    fields += [f"checkpoints/{key}" for key in saving if key in run.checkpoints.model_fields_set]
    if not run.supervised:
        fields += [key for key in _SUPERVISORS if key in run.model_fields_set and getattr(run, key) is not None]
    for key in fields:
        yield found(
            "TW207",
            context.locate.run(f"/{key}"),
            f"workload {work.kind} does not read {key.replace('/', '.')}",
            f"remove it, and give the program its own arguments; or {_where_read(run, key)}",
        )


_SUPERVISORS = ("trainer_version", "peer_wait", "peer_lost", "recovery", "recovery_wait")
"""What only our supervisor reads."""


def _where_read(run: Run, key: str) -> str:
    """What would make a field of the run matter."""
    if not run.supervised and key in _SUPERVISORS:
        return "have the command supervised, by `supervisor: brought`"
    if isinstance(run.workload, ScriptWorkload) and key in ("batch", "learning_rate"):
        return "say in `workload.training` what it trains, so that the plan reads it"
    return "use workload trainer"


def images_in_files(context: Context) -> Iterator[Finding]:
    """Only files can be broken one by one."""
    work = context.run.trainer
    if work and "skip_unreadable" in work.model_fields_set and not isinstance(work.data, ImageFolder):
        message = f"data source {work.data.source} does not read skip_unreadable"
        yield found("TW207", context.locate.run("/workload/skip_unreadable"), message, "remove it")


def memory_of_gpus(context: Context) -> Iterator[Finding]:
    """CPUs have no segments."""
    work = context.run.trainer
    if work and work.expandable_segments and not context.run.topology.needs().gpus_per_node:
        message = "a run on CPUs does not read expandable_segments"
        yield found("TW207", context.locate.run("/workload/expandable_segments"), message, "remove it")


def trainer_version(context: Context) -> Iterator[Finding]:
    """The image's trainer has to read the specification that this compiler writes."""
    run = context.run
    if run.supervised and run.trainer_version not in KNOWN_VERSIONS:
        message = f"trainwright-trainer {run.trainer_version} is not known to this compiler"
        fix = f"use an image with trainwright-trainer {' or '.join(KNOWN_VERSIONS)}, and write its version here"
        yield found("TW202", context.locate.run("/trainer_version"), message, fix)


def linear_with_adam(context: Context) -> Iterator[Finding]:
    work, rate = context.run.trained, context.run.learning_rate
    if work and rate and rate.scaling == "linear" and isinstance(work.optimizer, AdamW):
        yield found(
            "TW203",
            context.locate.run("/learning_rate/scaling"),
            "linear scaling with AdamW overshoots at large batches",
            "write `scaling: square_root`, or use optimizer sgd",
        )


def follows_the_batch(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The run states the batch that the rate belongs to, but no rule of scaling: ``scaling: none`` is a decision, leaving it out
    is not.
    """
    rate, batch, elastic = context.run.learning_rate, resolution.plan.batch, resolution.plan.elastic
    if rate is None or rate.base_batch is None or batch is None or "scaling" in rate.model_fields_set:
        return
    sizes = [size.effective for size in elastic.sizes] if elastic else [batch.effective]
    if set(sizes) != {rate.base_batch}:
        has = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
        message = f"base was tuned for a batch of {rate.base_batch}, the run has {has}, and the rate stays {rate.base:.1e}"
        rule = "linear" if context.run.trained and isinstance(context.run.trained.optimizer, SGD) else "square_root"
        fix = f"write `scaling: {rule}`, with warmup_steps; or `scaling: none` if the rate is meant to stay"
        yield found("TW214", context.locate.run("/learning_rate"), message, fix)


def belongs_to_a_batch(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """SGD on several ranks, and neither a rule nor a batch is stated (Goyal et al. 2017, section 2.1, for why SGD asks)."""
    work, rate, batch = context.run.trained, context.run.learning_rate, resolution.plan.batch
    if work is None or rate is None or batch is None or not isinstance(work.optimizer, SGD):
        return
    if batch.ranks > 1 and rate.base_batch is None and "scaling" not in rate.model_fields_set:
        message = (
            f"nothing says for which batch the rate {rate.base:.1e} was tuned, and {batch.ranks} ranks have an effective batch "
            f"of {batch.effective}"
        )
        fix = f"add base_batch, with `scaling: linear` if it is not {batch.effective}; or write `scaling: none`"
        yield found("TW215", context.locate.run("/learning_rate"), message, fix)


def warmup(context: Context, resolution: Resolution) -> Iterator[Finding]:
    rate = resolution.plan.learning_rate
    if rate and rate.warmup_steps == 0 and rate.peak > LARGE_SCALING * rate.base:
        yield found(
            "TW204",
            context.locate.run("/learning_rate"),
            f"the learning rate is scaled from {rate.base:.1e} to {rate.peak:.1e} without warm-up",
            "add warmup_steps to learning_rate; a few hundred are common",
        )


def warmup_ends(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Where the number of steps is known beforehand."""
    rate, duration = resolution.plan.learning_rate, resolution.plan.duration
    if rate and duration and duration.steps is not None and rate.warmup_steps >= duration.steps:
        yield found(
            "TW209",
            context.locate.run("/learning_rate/warmup_steps"),
            f"the warm-up takes {counted(rate.warmup_steps, 'step')}, and the whole training {duration.steps:,}",
            "lower warmup_steps, or train for longer",
        )


def batch_statistics(context: Context) -> Iterator[Finding]:
    work, batch = context.run.trainer, context.run.batch
    if work and batch and batch.accumulation > 1 and isinstance(work.model, ResNet):
        yield found(
            "TW205",
            context.locate.run("/batch/accumulation"),
            f"batch norm sees micro batches of {batch.micro}, not the accumulated batch",
            "raise micro and lower accumulation; or waive this if a micro batch is large enough",
        )


def batch_fits_data(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Where the number of samples is known beforehand."""
    work, batch = context.run.trainer, resolution.plan.batch
    samples = work.data.train_samples if work else None
    if batch and samples is not None and batch.effective > samples:
        yield found(
            "TW206",
            context.locate.run("/batch"),
            f"the effective batch of {batch.effective:,} is larger than the data, {samples:,} samples",
            "lower batch.micro, batch.accumulation or topology.nodes",
        )


def kept_batch_reaches_all(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A batch that stays while nodes come must have a sample for every rank of the largest size."""
    elastic, needs = resolution.plan.elastic, resolution.needs
    if elastic and elastic.keeps_batch and (effective := elastic.sizes[-1].effective) < needs.most_ranks:
        yield found(
            "TW211",
            context.locate.run("/topology/elastic"),
            f"the batch stays {effective}, fewer samples than the {needs.most_ranks} ranks of {needs.most_nodes} nodes",
            "raise batch.micro or batch.accumulation, lower max_nodes, or write `batch: move` below topology.elastic",
        )


RUN = (
    complete, without_effect, images_in_files, memory_of_gpus, trainer_version, linear_with_adam, batch_statistics,
    work_fits_topology, engine_fits, engine_can_resize,
)
PLAN = (
    follows_the_batch, belongs_to_a_batch, warmup, warmup_ends, batch_fits_data,
    kept_batch_reaches_all,
)
