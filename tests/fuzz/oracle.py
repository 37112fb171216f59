"""What must hold of any input: it is refused in words, or it compiles to what the plan says and the API takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.compiler.controllers import pods
from tests.compiler.objects import EARLIER, catalogue
from tests.fuzz.inputs import TODAY, Input

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Finding, Severity
from trainwright.findings.codes import CODES
from trainwright.findings.locate import Locator
from trainwright.manifest.foundation import foundation
from trainwright.manifest.labels import in_foundation
from trainwright.manifest.plain import problems
from trainwright.manifest.provenance import split
from trainwright.reading import validate, validate_data
from trainwright.reading.document import parse_yaml
from trainwright.report.plan import compiled_data, plan_lines
from trainwright.rules.cluster.profile import check_profile
from trainwright.run import Run
from trainwright.validate import object_problems
from trainwright.validate.core_schemas import known_version
from trainwright.validate.read_back import differences

Data = dict[str, Any]

LONGEST_SECONDS = 1.0
"""CPU time of an input."""


def compiled(item: Input) -> CompiledRun:
    """As a project compiles files, and a construct values.

    Raises:
        CompileError: with findings.
    """
    locate = Locator()
    if isinstance(item.run, Run) or isinstance(item.cluster, Cluster):
        cluster, run = validate_data(Cluster, item.cluster, None, {}), validate_data(Run, item.run, None, {})
    else:
        profile, asked = (parse_yaml(json.dumps(one, indent=1), name) for one, name in ((item.cluster, "c"), (item.run, "r")))
        locate = Locator(asked.file, asked.positions, profile.file, profile.positions)
        cluster, run = validate(Cluster, profile), validate(Run, asked)
    if findings := [one for one in check_profile(cluster, locate) if one.severity is Severity.ERROR]:
        raise CompileError(findings)
    return compile_run(run, cluster, locate, TODAY)


def examine(item: Input) -> CompiledRun | None:
    """The run, if it compiles.

    Raises:
        AssertionError: for what must not be.
        Exception: whatever is no finding.
    """
    started = time.process_time()
    try:
        result = compiled(item)
    except CompileError as error:
        result, refused = None, error.findings
    seconds = time.process_time() - started
    if seconds > LONGEST_SECONDS:  # the first time, schemas were loaded
        started = time.process_time()
        with suppress(CompileError):
            compiled(item)
        seconds = min(seconds, time.process_time() - started)
    assert seconds <= LONGEST_SECONDS, f"{seconds:.1f} s of CPU"
    if result is None:
        assert any(finding.severity is Severity.ERROR for finding in refused)
        for finding in refused:
            assert_readable(finding)
        return None
    assert_true(result)
    return result


def assert_readable(finding: Finding) -> None:
    """Words that a person can read: nothing of Python's own speech."""
    words = f"{finding.where} {finding.message} {finding.fix}"
    assert finding.message, finding
    assert finding.fix, finding
    assert len(words) < 2000, finding
    for word in ("Traceback", "pydantic", " object at 0x", "<class ", "For further information"):
        assert word not in words, finding


def assert_true(result: CompiledRun) -> None:
    """The objects are what the plan says, and what the API takes."""
    manifests = list(result.manifests)
    for manifest in manifests:
        assert not list(problems(manifest))
    overrides = result.run.overrides
    if not overrides.pod and not overrides.objects:  # what a patch says of a custom kind, only its CRD knows: `validate` reads it
        version = known_version(result.cluster.kubernetes)
        said = [problem for manifest in manifests for problem in object_problems(manifest, catalogue(), version)[0]]
        said = [one for one in said if CODES[one.code].severity is Severity.ERROR and one.pointer not in EARLIER]
        assert not said, said[:3]
    assert_counted(result)
    json.dumps(compiled_data(result), allow_nan=False)
    for line in plan_lines(result):
        assert line.isprintable(), ascii(line)


def assert_counted(result: CompiledRun) -> None:
    """As many pods and GPUs as the plan says, and none beside them, wherever in an object."""
    plan, roles = result.plan, result.resolution.binding.roles
    made = pods(result.manifests)
    assert len(made) == sum(role.pods for role in roles), f"{len(made)} pods, planned {roles}"
    gpus = sum(gpus_of(pod.spec) for pod in made)
    assert gpus == plan.world.nodes * plan.world.gpus_per_node, f"{gpus} GPUs, planned {plan.world}"
    specs = [spec for manifest in result.manifests if not in_foundation(manifest) for spec in specs_in(manifest)]
    assert len(specs) <= len(roles) + len(result.target.helpers), "pods beside the plan's"
    planned = [_names(pod.spec) for pod in made]
    assert all(_names(spec) in planned for spec in specs if gpus_of(spec)), "GPUs beside the plan's"


def specs_in(node: Any) -> Iterator[Data]:
    """Whatever holds containers with images; those without are parts of pods that are elsewhere."""
    if isinstance(node, dict):
        if isinstance(node.get("containers"), list) and any("image" in one for one in node["containers"]):
            yield node
        for value in node.values():
            yield from specs_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from specs_in(value)


def _names(spec: Data) -> list[str]:
    return [one["name"] for one in spec["containers"]]


def gpus_of(spec: Data) -> int:
    """Of all containers of a pod."""
    held = [*spec.get("containers", ()), *(spec.get("initContainers") or ()), *(spec.get("ephemeralContainers") or ())]
    limits = [one.get("resources", {}) for one in held]
    found = [{**(one.get("requests") or {}), **(one.get("limits") or {})} for one in limits]
    return sum(int(amount) for one in found for name, amount in one.items() if name.endswith("/gpu"))


def foundation_of(result: CompiledRun) -> list[Data]:
    """What the profile makes in the run's namespace."""
    return [split(tree)[0] for tree in foundation(result.cluster, result.plan.namespace)]


def misread(results: list[tuple[int, CompiledRun]]) -> Iterator[tuple[int, str]]:
    """Number of an input, and the place of a value in it that reads as another one from the YAML that cdk8s writes."""
    from trainwright.cdk8s.node import prepare_node

    prepare_node()
    from cdk8s import Yaml

    objects = [(number, one) for number, result in results for one in (*result.manifests, *foundation_of(result))]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "objects.yaml"
        Yaml.save(str(path), [one for _, one in objects])
        for index, pointer in differences(path.read_text(encoding="utf-8"), [one for _, one in objects]):
            yield objects[index][0], f"{objects[index][1]['kind']}{pointer} reads as another value"
