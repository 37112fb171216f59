"""The program ``trainwright-trainer``: its commands, in the order of the help.

``supervise``, ``ray`` and ``train`` are a pod: they supervise ranks until the run ends. What only one command needs is imported
when it is called, so that a pod starts fast.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import typer

from trainwright_trainer import __version__
from trainwright_trainer.commands.local import local_run, own_port, with_directory
from trainwright_trainer.commands.options import (
    USUAL_PLACE,
    JSONOption,
    ProcessesOption,
    SpecOption,
    given_specification,
    refusals,
    trying_a_run,
    write_json,
)
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.contract.spec_file import read_specification, specification_path
from trainwright_trainer.rank.ending import leave
from trainwright_trainer.supervisor.supervise import supervise as run_supervisor


def supervise(
    spec: SpecOption = None,
    program: Annotated[
        list[str] | None,
        typer.Argument(show_default=False, help="After `--`: what the pod starts, such as `mpirun …`, `sshd …`, or a command."),
    ] = None,
) -> None:
    """Supervise this pod's ranks until the run ends.

    Exit codes: 0 done; 10 to 29 would fail again; 200 to 249 are worth another try. SIGTERM saves a checkpoint and ends the whole
    run. The last log line and the termination message name the cause.
    """
    leave(run_supervisor(os.environ, spec, program or ()))


def ray(spec: SpecOption = None) -> None:
    """Run the driver of a run on a Ray cluster: Ray Train places the ranks, and this supervises them all until the run ends.

    The entrypoint of a RayJob; elsewhere RAY_ADDRESS names the cluster's head. Exit codes, SIGTERM and termination message are
    those of `supervise`.
    """
    leave(run_supervisor(os.environ, spec))


def train(
    spec: SpecOption = None,
    processes: ProcessesOption = None,
    directory: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="Where checkpoints, ledger and COMPLETE marker go, a path or an address. Default: where the run says.",
        ),
    ] = None,
) -> None:
    """Run a whole run on this one machine, without Kubernetes: one pod holds all of its ranks.

    It resumes from what is in the checkpoint directory, and a run that is complete there ends at once. Exit codes, SIGTERM and
    log are those of `supervise`; 10 also for a run that one pod cannot play.
    """
    with refusals(), tempfile.TemporaryDirectory(prefix="trainwright-train-", ignore_cleanup_errors=True) as folder:
        given = given_specification(spec)
        wanted = given.spec if directory is None else with_directory(given.spec, _place(directory))
        with own_port(wanted.http_port) as port:
            run = local_run(wanted, given.path, Path(folder), processes, port)
            if port != wanted.http_port:
                typer.echo(f"note: port {wanted.http_port} is taken here; /metrics is on port {port} instead", err=True)
            code = run_supervisor(run.environment(os.environ), run.path)
    leave(code)


def _place(directory: str) -> str:
    return directory if "://" in directory else os.path.abspath(directory)


def plan(
    spec: SpecOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what a specification will do, without starting a rank: ranks, batch, steps, rates, model, memory, checkpoints.

    The model is built without memory and counted; data is counted where it is on this machine. Exit codes: 10 the specification
    is invalid, or its model cannot be built; 12 the data is here, and is not what the specification says.
    """
    from trainwright_trainer.commands.plan.plan import plan as make_plan
    from trainwright_trainer.commands.plan.report import report

    with refusals():
        given = given_specification(spec)
        made = make_plan(given.spec, given.path)
    typer.echo(json.dumps(asdict(made), indent=2) if as_json else report(made))


def bench(
    spec: SpecOption = None,
    steps: Annotated[int, typer.Option(help="Steps to measure.")] = 30,
    warm_up: Annotated[int, typer.Option(help="Steps before them, which are not measured.")] = 10,
    processes: ProcessesOption = None,
    peak_tflops: Annotated[
        float | None,
        typer.Option(
            show_default=False,
            help="Peak of one device in 10^12 operations a second, for MFU. Default: NVIDIA's data sheet, for known GPUs.",
        ),
    ] = None,
    file: JSONOption = None,
) -> None:
    """Train some steps of a run on this machine, and say how fast: its real model, data, engine and supervisor.

    Checkpoints go to a temporary directory, with no save between the steps. Exit codes: 10 it cannot be measured as asked; 203
    also where FILE cannot be written after all; any other code is the run's own.
    """
    with trying_a_run(file):
        from trainwright_trainer.commands.bench import run

        figures = run.bench(run.Request(given_specification(spec), steps, warm_up, processes, peak_tflops))
        typer.echo(run.report(figures))
        write_json(file, asdict(figures))


NOT_PROVEN = 1
"""Exit code of a proof that fails. No pod ends with it, and no error of this program."""


def verify_resume(
    spec: SpecOption = None,
    steps: Annotated[int, typer.Option(help="Length of the run that is proven; a third of them lie between two commits.")] = 12,
    kill_at: Annotated[
        int | None,
        typer.Option(show_default=False, help="Step after which the ranks are killed. Default: drawn by the seed."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the moment of the kill.")] = 0,
    processes: ProcessesOption = None,
    resume_processes: Annotated[
        int | None,
        typer.Option(
            min=1, show_default=False,
            help="The other number of ranks to resume with. Default: half, or two for one. The same number leaves that out.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, show_default=False,
            help="Relative, for losses that other sums may round otherwise. Default: 0.001 in fp32, 0.02 in bf16 and fp16.",
        ),
    ] = None,
    weight_tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, show_default=False,
            help="The same for weights, as a share of the way that they went. Default: 0.02 in fp32, 0.1 in bf16 and fp16.",
        ),
    ] = None,
    file: JSONOption = None,
) -> None:
    """Prove on this machine that the run resumes exactly: kill all of its ranks, resume it, and compare with one uninterrupted.

    Resumed at its own size it must see the same samples and end with the same bits (on GPUs: within the tolerance); resumed at
    another size it must see the same samples, with losses and weights within the tolerance. The last line names what was not
    compared. Exit codes: 0 proven; 1 not, and the first step that differs is named; 10 it cannot be proven as asked; 203 also
    where FILE cannot be written after all; any other code is that of a run that failed without any kill.
    """
    with trying_a_run(file):
        from trainwright_trainer.commands.verify_resume import run
        from trainwright_trainer.commands.verify_resume.comparison import document, report

        request = run.Request(
            given_specification(spec), steps, kill_at, seed, processes, resume_processes, tolerance, weight_tolerance
        )
        proof = run.verify_resume(request)
        typer.echo(report(proof))
        write_json(file, document(proof))
    if not proof.holds:
        raise typer.Exit(NOT_PROVEN)


class Width(Enum):
    """Of one token id in a file."""

    UINT16 = "uint16"
    UINT32 = "uint32"


def tokenize(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            show_default=False,
            help="Text files (a document each), files of JSON lines (a document a line), data sets that `datasets` saved, or "
            "folders of text files and JSON lines. In the order given.",
        ),
    ],
    output: Annotated[Path, typer.Option(show_default=False, help="File of tokens to write, such as /data/train/000.bin.")],
    tokenizer: Annotated[
        str, typer.Option(show_default=False, help="A tokenizer.json, the folder that holds it, or `bytes`: one token a byte.")
    ],
    column: Annotated[str, typer.Option(help="Key of the text in JSON lines and data sets.")] = "text",
    split: Annotated[str, typer.Option(help="Split of the data sets.")] = "train",
    end_of_text: Annotated[
        str | None,
        typer.Option(show_default=False, help="Token after each document. Default: the first of the usual ones."),
    ] = None,
    dtype: Annotated[
        Width | None, typer.Option(show_default=False, help="Width of a token. Default: uint16 if the tokenizer allows it.")
    ] = None,
) -> None:
    """Write text as a file of token ids, which data source `tokens` reads, and a small JSON file beside it.

    The file appears when it is whole; one that is there is left alone. Run it once for each file of a large data set. Exit codes:
    10 it cannot be done as asked, 12 an input is missing or is no text, 203 a volume failed or is full.
    """
    with refusals():
        from trainwright_trainer.commands.tokenize import run
        from trainwright_trainer.commands.tokenize.documents import Source

        source = Source(inputs, column, split)
        record = run.tokenize(run.Request(source, output, tokenizer, end_of_text, None if dtype is None else dtype.value))
    size = f"{record.tokens:,} tokens of {record.documents:,} documents"
    typer.echo(f"ok: {output}: {size}, {record.dtype}, vocabulary {record.vocabulary:,}")


def fetch(
    source: Annotated[
        str,
        typer.Argument(show_default=False, help="hf://datasets/OWNER/NAME@COMMIT, or hf://OWNER/NAME@COMMIT for a model."),
    ],
    folder: Annotated[Path, typer.Argument(show_default=False, help="Folder to fill. FOLDER.complete says that it is whole.")],
    include: Annotated[list[str] | None, typer.Option(help="Files to fetch, such as '*.safetensors'. Default: all.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Files to leave out, such as 'original/*'.")] = None,
    form: Annotated[
        Literal["files", "dataset"], typer.Option(help="The files as they are, or a data set that hf-dataset reads.")
    ] = "files",
    subset: Annotated[str | None, typer.Option(show_default=False, help="With --form dataset: which one of several.")] = None,
) -> None:
    """Fetch a repository of the Hugging Face Hub into a folder, once: every file compared by its digest, and then a marker.

    HF_TOKEN is the token, HF_ENDPOINT another Hub. A call that was interrupted goes on the next time, and one that finds the
    marker ends at once. Exit codes: 10 it cannot be done as asked; 12 the Hub has no such repository, or does not show it; 203
    the Hub or the volume failed.
    """
    with refusals():
        from trainwright_trainer.commands.fetch import run

        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))  # at once: what is there stays, and the next call goes on
        typer.echo(run.fetch(run.Request(source, folder, include or (), exclude or (), form, subset)))


def export(
    checkpoints: Annotated[
        str, typer.Argument(show_default=False, help="The run's checkpoint directory, or its address on an object store.")
    ],
    output: Annotated[Path, typer.Argument(show_default=False, help="Directory to write. It must not be there, or be empty.")],
    step: Annotated[int | None, typer.Option(show_default=False, help="Default: the newest that verifies.")] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            show_default=False,
            help="The run's specification, for checkpoints that do not say what they were trained as. Default: the path in "
            f"{SPEC_ENV}, else {USUAL_PLACE}.",
        ),
    ] = None,
) -> None:
    """Write the weights of a checkpoint as a directory that `from_pretrained` of transformers loads.

    Every byte of the checkpoint is verified first, and the directory appears when it is whole. Exit codes: 10 it is another
    model, or something is at OUTPUT; 13 no checkpoint verifies; 203 a volume failed or is full.
    """
    with refusals():
        from trainwright_trainer.commands.export import run

        done = run.export(run.Request(checkpoints, output, spec or specification_path(os.environ), step))
    typer.echo(f"ok: {output}: {done.architecture} of step {done.step}, {done.size:,} bytes in {done.files} files of safetensors")


def validate(path: Annotated[Path, typer.Argument(help="The run's specification.", show_default=False)]) -> None:
    """Check a specification without starting anything. Exit code 10 and one sentence if it is invalid."""
    with refusals():
        spec = read_specification(path).spec
    world = spec.world
    size = f"{world.nodes} x {world.processes_per_node} = {world.size} ranks on {world.device}"
    typer.echo(f"ok: {spec.identity}: {spec.work.kind}, {size}")


def version() -> None:
    """Print the trainer's version."""
    typer.echo(__version__)


app = typer.Typer(
    name="trainwright-trainer", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Runs one pod of a distributed training run: reads the run's specification, starts one process for each rank, and ends "
    "with an exit code that says how the run ended.",
)
for command in (supervise, ray, train, validate, plan, version, bench, verify_resume, tokenize, fetch, export):
    app.command()(command)
