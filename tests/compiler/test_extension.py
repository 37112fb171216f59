"""A new topology and a new target are one module and one line in a registry each: two of them, added from outside.

Nothing in the compiler knows them. ``AnyTopology``, the registry of topologies, and the names of targets that a run file may
write are widened in a subclass of the run here; in a process of its own one line in ``TARGET_MODULES`` is enough for the latter.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import pytest
from pydantic import Field
from ruamel.yaml import YAML
from tests.compiler.example import CLUSTER, RUN, TODAY, Data
from tests.compiler.findings.page import overlay

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.explain import Explainer
from trainwright.findings import CompileError, Finding
from trainwright.handshake import (
    Binding,
    Elastic,
    Guarantee,
    Needs,
    Process,
    Refusal,
    Rendezvous,
    Role,
    Success,
    TargetName,
    Variable,
)
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.labels import object_labels
from trainwright.manifest.provenance import Why
from trainwright.manifest.template.pod import pod_template, template_reasons
from trainwright.manifest.template.volumes import payload_provenance
from trainwright.model import Model
from trainwright.operators import TARGETS
from trainwright.operators.base import KnownOperator, Target, Template
from trainwright.operators.job.emit import IndexedJob
from trainwright.plan import Resolution
from trainwright.project.built import Output
from trainwright.reading import validate_data
from trainwright.report.plan import plan_lines
from trainwright.run import Run
from trainwright.targets import TARGET_MODULES
from trainwright.topology import DDP, Topology, Work
from trainwright.topology.process import processes, rank_variables
from trainwright_trainer.contract.sharding import Sharding

JOB = "/spec/groups/0/template/spec"


class Gossip(Model):
    """``kind: gossip``: one rank a node, each averages with its neighbours; what one rank loses the others make good."""

    title: ClassVar[str] = "Gossip"
    engine: ClassVar[Literal["ddp"]] = "ddp"
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.EXIT_CODES, Guarantee.EXACT_RESUME})
    only_commands: ClassVar[str] = ""

    kind: Literal["gossip"]
    neighbours: int
    elastic: bool = False

    def needs(self) -> Needs:
        return Needs(
            nodes=self.neighbours + 1,
            processes_per_node=1,
            gpus_per_node=0,
            rendezvous=Rendezvous.STATIC,
            success=Success.ALL_RANKS,
            elastic=Elastic(2, self.neighbours + 1) if self.elastic else None,
        )

    def sharding(self) -> Sharding:
        return Sharding()

    def settings(self) -> Mapping[str, Any]:
        return {}

    def variables(self, binding: Binding, work: Work) -> tuple[Variable, ...]:
        return rank_variables(self.needs(), binding, work)

    def processes(self, binding: Binding, work: Work) -> dict[str, Process]:
        return processes(self.needs(), binding, work)


SWARM = GroupKind("swarms.example.com", "Swarm")


class Swarm(Target):
    """A kind of an operator that nobody has: one group of pods, as short as it can be."""

    name = "swarm"
    title = "Swarm"
    kind = SWARM
    operator: KnownOperator | None = None
    kueue: str | None = "example.com/swarm"
    minimum_kubernetes = (1, 33)
    templates: Mapping[str, Template] = {"node": (SWARM, f"{JOB}/template")}
    kinds: tuple[ObjectKind, ...] = (
        ObjectKind(
            SWARM,
            reasons={
                "": "the run itself",
                f"{JOB}/completionMode": "each pod has a fixed index",
                **template_reasons(f"{JOB}/template"),
            },
            owned=(Owned("/spec/failurePolicy.*", "how all groups start again", "change restarts"),),
            mutable=("/spec/ttlSecondsAfterFinished",),
        ),
    )

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if needs.elastic:
            return Refusal("a Swarm has a fixed number of pods", "set elastic to false")
        return Binding(
            roles=(Role(name="node", pods=needs.nodes, host="{name}-node-0-{index}.{name}", container="node"),),
            rank_zero_host="{name}-node-0-0.{name}",
            rendezvous_port=29501,
            node_index_env="JOB_COMPLETION_INDEX",
            injects={"JOB_COMPLETION_INDEX": "the pod's completion index, set by the Job controller"},
            guarantees=frozenset(Guarantee) - {Guarantee.RESHARD},
            generated_names=(f"{{name}}-node-0-{needs.nodes - 1}-abcde",),
        )

    def lower(self, resolution: Resolution) -> list[Data]:
        run, plan, role = resolution.run, resolution.plan, resolution.binding.roles[0]
        job = {
            "completionMode": "Indexed",
            "completions": Why(role.pods, "run:/topology", "one index a node"),
            "parallelism": Why(role.pods, "run:/topology", "all nodes at once"),
            "template": pod_template(resolution, role, {"restartPolicy": "Never"}),
        }
        swarm = {
            "apiVersion": "swarms.example.com/v1",
            "kind": "Swarm",
            "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": object_labels(run)},
            "spec": {
                "failurePolicy": {"maxRestarts": Why(run.restarts, "run:/restarts", "restarts of all Jobs together")},
                "groups": [{"name": "node", "template": {"spec": job}}],
            },
        }
        return [swarm]


TARGET: Target = Swarm()


class WideRun(Run):
    """A run as it is with the two registered."""

    topology: Annotated[DDP | Gossip, Field(discriminator="kind")]  # type: ignore[assignment]
    target: Literal["indexed-job", "swarm"] | None = None


GOSSIP: Data = {"topology": {"kind": "gossip", "neighbours": 2}}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGET_MODULES, Swarm.name, (Swarm.name, None))
    monkeypatch.setitem(sys.modules, f"trainwright.operators.{Swarm.name}", sys.modules[__name__])


def compiled(*changes: Data) -> CompiledRun:
    data = RUN
    for change in changes:
        data = overlay(data, change)
    return compile_run(validate_data(WideRun, data, None, {}), Cluster.model_validate(CLUSTER), today=TODAY)


def refused(*changes: Data) -> Finding:
    with pytest.raises(CompileError) as caught:
        compiled(*changes)
    (finding,) = caught.value.findings
    return finding


def test_what_is_built_in_is_of_the_same_kind() -> None:
    """Held by mypy; and the types by which run files name things say what the registries hold."""
    topology: Topology = DDP(kind="ddp", nodes=1, gpus_per_node=0)
    another: Topology = Gossip(kind="gossip", neighbours=1)
    built_in: Target = IndexedJob()
    added: Target = Swarm()
    assert topology.needs().world_size == 1
    assert another.needs().world_size == 2
    assert {*get_args(TargetName), added.name} == TARGETS.keys()
    assert built_in.name in TARGETS


FOLDER = """
from tests.compiler.test_extension import Swarm
from trainwright.cluster.addons import Releases
from trainwright.operators.base import Crd, KnownOperator

class Operated(Swarm):
    operator = KnownOperator("swarm-operator", Releases((1, 0), (1, 2)), Crd("swarms.swarms.example.com", "v1"))

TARGET = Operated()
"""
LINE = """
from trainwright import operators, targets

operators.__path__.append(FOLDER)
targets.TARGET_MODULES["swarm"] = ("swarm.emit", "swarm-operator")

from tests.compiler.example import RUN, compiled, findings
from trainwright.findings import CompileError
from trainwright.reading import validate_data
from trainwright.run import Run

installed = {"operators": {"swarm-operator": {"version": "1.1"}}, "default_target": "swarm"}
print(compiled({}, installed).plan.target_title)
print(findings({"target": "swarm"})[0].code)
try:
    validate_data(Run, RUN | {"target": "swarn"}, None, {})
except CompileError as error:
    print(error.findings[0].message, error.findings[0].fix)
print("swarm" in str(Run.model_json_schema()["properties"]["target"]))
"""


def test_an_operator_is_its_folder_and_one_line(tmp_path: Path) -> None:
    """Run files and profiles may name it, and are told of it where they misspell it; so may editors, by the schema."""
    folder = tmp_path / "swarm"
    folder.mkdir()
    folder.joinpath("__init__.py").touch()
    folder.joinpath("emit.py").write_text(FOLDER)
    program = LINE.replace("FOLDER", repr(str(tmp_path)))
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    title, missing, misspelt, in_schema = ended.stdout.splitlines()
    assert (title, missing, in_schema) == ("Swarm", "TW313", "True")
    assert misspelt.startswith("`target` cannot be swarn did you mean swarm? Allowed: indexed-job, ")


@pytest.mark.parametrize("topology", [{}, GOSSIP], ids=["ddp", "gossip"])
@pytest.mark.parametrize("target", [IndexedJob, Swarm], ids=["indexed-job", "swarm"])
def test_every_topology_goes_to_every_target(topology: Data, target: type[Target]) -> None:
    result = compiled(topology, {"target": target.name})
    plan = result.plan
    assert plan.target_title == target.title
    assert plan.world.size == plan.world.nodes * plan.world.processes_per_node
    assert plan.rendezvous.port == (29501 if target is Swarm else 29500)
    assert GroupKind.of(result.manifests[-1]) == target.kind
    assert plan_lines(result)[0] == f"{plan.name} on lab · {plan.topology} · {target.title}"


def test_the_plan_promises_what_both_keep() -> None:
    assert compiled(GOSSIP, {"target": "swarm"}).plan.guarantees == ("exit codes", "exact resume")
    assert "resume at another size" not in compiled({"target": "swarm"}).plan.guarantees


def test_a_cluster_can_have_another_default() -> None:
    profile = Cluster.model_validate(CLUSTER).model_copy(update={"default_target": "swarm"})
    assert compile_run(validate_data(WideRun, RUN, None, {}), profile, today=TODAY).plan.target == "swarm"


def test_a_misspelt_kind_is_told_with_the_kinds_there_are() -> None:
    finding = refused({"topology": {"kind": "gosip"}})
    assert (finding.code, finding.where.pointer) == ("TW107", "/topology/kind")
    assert finding.fix == "did you mean gossip? Allowed: ddp, gossip"


def test_a_key_of_another_kind_is_told_as_such() -> None:
    finding = refused(GOSSIP, {"topology": {"nodes": 3}})
    assert (finding.code, finding.where.pointer) == ("TW105", "/topology/nodes")
    assert finding.fix == "remove it: it is a key of kind ddp"


@pytest.mark.parametrize("target", ["indexed-job", "swarm"])
def test_a_topology_that_a_target_cannot_carry_is_a_finding(target: str) -> None:
    finding = refused(GOSSIP, {"topology": {"elastic": True}, "target": target})
    assert (finding.code, finding.where.pointer) == ("TW401", "/topology")
    assert finding.message.startswith(f"{TARGETS[target].title} cannot run Gossip: ")
    assert finding.fix


def test_names_that_the_other_controller_derives_are_checked() -> None:
    short = compiled({"target": "swarm", "run": "n" * 36})
    assert len(f"{short.plan.name}-node-0-1-abcde") <= 63
    assert refused({"target": "swarm", "run": "n" * 40}, GOSSIP, {"topology": {"neighbours": 100}}).code == "TW402"


def test_an_edit_of_what_is_mutable_there_moves_no_name() -> None:
    assert compiled({"target": "swarm"}).identity != compiled({"target": "indexed-job"}).identity
    assert compiled({"target": "swarm", "labels": {"a": "b"}}).identity == compiled({"target": "swarm"}).identity


def test_overrides_reach_its_pods_and_keep_away_from_what_the_plan_owns() -> None:
    patched = compiled({"target": "swarm", "overrides": {"pod": {"node": {"priorityClassName": "high"}}}})
    assert patched.overridden == (f"Swarm{JOB}/template/spec/priorityClassName",)
    finding = refused({"target": "swarm", "overrides": {"pod": {"node": {"restartPolicy": "OnFailure"}}}})
    assert (finding.code, finding.fix.partition(":")[0]) == ("TW601", "change restarts")
    finding = refused({"target": "swarm", "overrides": {"pod": {"node": {"priorityClass": "high"}}}})
    assert (finding.code, finding.fix) == ("TW603", "did you mean `priorityClassName`?")
    assert finding.message == f"Swarm: {JOB}/template/spec has no field `priorityClass`"


def test_a_value_that_yaml_readers_change_is_found_in_its_pods_too() -> None:
    finding = refused({"target": "swarm", "env": {"PLAIN": "a\tb"}})
    assert (finding.code, finding.where.pointer) == ("TW107", "/env/PLAIN/value")


def test_every_line_has_an_answer() -> None:
    result = compiled(GOSSIP, {"target": "swarm"})
    text = _yaml(result.manifests)
    output = Output(
        "lab/training/runs/example.k8s.yaml", result.manifests, result.provenance, "example.yaml", result.reasons,
        lambda: payload_provenance(result.resolution),
    )
    answers = list(Explainer(text, "example.k8s.yaml", output).all())
    assert len(answers) == len(text.splitlines()) > 100
    assert [answer.pointer for answer in answers if answer.reason == "part of the object"] == []


def _yaml(manifests: tuple[dict[str, Any], ...]) -> str:
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump_all([dict(manifest) for manifest in manifests], stream)
    return stream.getvalue()
