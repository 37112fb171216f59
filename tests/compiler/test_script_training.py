"""A script that says what it trains is planned as our trainer would be, and its pods never learn of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.compiling import compile_data
from tests.compiler.findings.page import overlay
from tests.compiler.projects import ROOT
from tests.compiler.test_memory import MODELS, estimate, workload, zero

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError, Finding
from trainwright.plan.estimate.communication import computed, sequence_length
from trainwright.reading.document import read_yaml
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.run import Batch, ScriptTraining
from trainwright_trainer.contract.estimate.memory import training_memory
from trainwright_trainer.contract.sharding import Sharding

Data = dict[str, Any]

RUN: Data = read_yaml(ROOT / "charts" / "runs" / "own-script.yaml").data
CLUSTER: Data = read_yaml(ROOT / "charts" / "clusters" / "h100-ib.yaml").data
TRAINING: Data = {
    "model": {"architecture": "other", "parameters": 1_000_000_000},
    "precision": "bf16",
    "optimizer": {"kind": "adamw"},
    "sequence_length": 2048,
}
STATED: Data = {"workload": {"training": TRAINING}, "batch": {"micro": 2, "accumulation": 4}}
RATE: Data = {"learning_rate": {"base": 3e-4, "base_batch": 256, "scaling": "linear", "warmup_steps": 100}}


def compiled(*changes: Data) -> CompiledRun:
    run = RUN
    for change in changes:
        run = overlay(run, change)
    return compile_data(CLUSTER, run)


def refused(*changes: Data) -> tuple[Finding, ...]:
    with pytest.raises(CompileError) as caught:
        compiled(*changes)
    return caught.value.findings


@pytest.mark.parametrize("sharding", [Sharding(), zero("zero3").sharding(), zero("zero3", "fsdp2").sharding()])
@pytest.mark.parametrize("name", MODELS)
def test_the_estimate_is_that_of_our_trainer(name: str, sharding: Sharding) -> None:
    ours = workload(MODELS[name])
    training = ScriptTraining.model_validate({
        "model": MODELS[name], "precision": ours.precision, "optimizer": {"kind": "adamw"},
        "sequence_length": sequence_length(ours),
    })
    theirs = computed(training, Batch(micro=4, accumulation=1))
    assert theirs is not None
    assert training_memory(theirs, sharding, "cuda") == estimate(ours, sharding=sharding)


def test_its_pods_do_not_learn_of_it() -> None:
    before, after = compiled(), compiled(STATED, RATE)
    assert after.manifests == before.manifests
    assert after.identity == before.identity


def test_what_it_states_is_in_the_plan() -> None:
    said = compiled(STATED, RATE)
    rows = dict(plan_rows(said))
    assert rows["batch"] == "128 = micro 2 x accumulation 4 x 16 ranks"
    assert rows["memory"].startswith("per GPU 15.7 to 30.4 of 80.0 GiB: weights 3.7, gradients 3.7 to 7.5, optimizer 7.5")
    assert "step and rank" in rows["traffic"]
    assert rows["scaling"].startswith("85 to 100 % of 64 GPUs")
    facts = plan_facts(said)
    assert {key: facts[key] for key in ("batch", "model.parameters", "precision", "optimizer.kind", "sequence_length")} == {
        "batch": 128, "model.parameters": 1_000_000_000, "precision": "bf16", "optimizer.kind": "adamw", "sequence_length": 2048,
    }


def test_what_it_does_not_state_is_in_no_plan() -> None:
    rows, facts = dict(plan_rows(compiled())), plan_facts(compiled())
    assert not {"batch", "learning rate", "traffic", "scaling"} & rows.keys()
    assert not {"batch", "precision", "optimizer.kind", "learning_rate"} & facts.keys()


def test_without_a_batch_memory_says_what_is_missing() -> None:
    rows = dict(plan_rows(compiled({"workload": {"training": TRAINING}})))
    assert rows["memory"] == "not known: batch is not stated"


def test_a_model_that_does_not_fit_is_refused_with_what_the_program_must_do() -> None:
    large = {"workload": {"training": {"model": {"parameters": 7_000_000_000}}}}
    (finding,) = [one for one in refused(STATED, large) if one.code == "TW220"]
    assert "if the program does the same" in finding.fix
    assert "topology" in finding.fix


def test_its_rate_is_checked() -> None:
    assert "TW203" in {one.code for one in compiled(STATED, RATE).findings}
    sgd = {"workload": {"training": {"optimizer": {"kind": "sgd"}}}}
    assert "TW203" not in {one.code for one in compiled(STATED, RATE, sgd).findings}


def test_a_batch_that_nothing_reads_is_noted_with_what_would_read_it() -> None:
    (finding,) = [one for one in compiled({"batch": {"micro": 2}}).findings if one.code == "TW207"]
    assert "say in `workload.training` what it trains" in finding.fix
    assert "TW207" not in {one.code for one in compiled(STATED).findings}
