"""An import changes no meaning in silence: what is secret stays so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.compiler.importing.test_accounts import told
from tests.compiler.importing.test_bring import FETCHING, ON_A_RUNTIME, TOKEN, brought, only

from trainwright.compile import compile_run
from trainwright.findings import CompileError
from trainwright.importing.read import Source
from trainwright.importing.secrets import HIDDEN, shown
from trainwright.reading import validate_data
from trainwright.rules.secrets import secrets_in
from trainwright.run import Run

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCY"  # noqa: S105 - of no form, but for the name of its variable


def test_a_runtime_with_a_secret_in_plain_text_is_no_file_of_the_project() -> None:
    text = ON_A_RUNTIME.replace("PATCH", "{}").replace('{name: PLATFORM, value: "yes"}', f"{{name: HF_TOKEN, value: {TOKEN}}}")
    found = brought(text)
    (run,) = found.runs
    assert TOKEN not in found.profile_text + run.text + json.dumps(found.runtimes)
    assert run.run["env"]["HF_TOKEN"] == {"secret": "on-it-secrets", "key": "HF_TOKEN"}
    assert [name for name, _ in run.hidden] == ["HF_TOKEN"]
    assert "spec.template.spec.replicatedJobs[0]" in run.dropped[0].why
    assert TOKEN not in repr(told(Source("given.yaml", text)))


def test_a_secret_of_an_initializer_is_read_from_a_secret() -> None:
    text = FETCHING.replace("{name: RETRIES, value: '3'}", f"{{name: SECRET_ACCESS_KEY, value: {SECRET}}}")
    run = only(text)
    reference = {"secret": "reads-secrets", "key": "SECRET_ACCESS_KEY"}
    assert run.run["initializer"]["dataset"]["env"] == {"SECRET_ACCESS_KEY": reference}
    line = next(number for number, line in enumerate(text.splitlines(), 1) if SECRET in line)
    assert [(name, where.line) for name, where in run.hidden] == [("SECRET_ACCESS_KEY", line)]
    assert SECRET not in run.text


RAY = """
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: ray}
spec:
  entrypoint: python t.py
  runtimeEnvYAML: "env_vars: {WANDB_API_KEY: SECRET, LEVEL: info}"
  rayClusterSpec:
    rayVersion: 2.52.0
    headGroupSpec:
      template: {spec: {containers: [{name: ray-head, image: 'rayproject/ray:2.52.0',
                                      resources: {limits: {cpu: 2, memory: 8Gi}}}]}}
    workerGroupSpecs:
    - groupName: workers
      replicas: 2
      numOfHosts: HOSTS
      template: {spec: {containers: [{name: ray-worker, image: 'rayproject/ray:2.52.0',
                                      resources: {limits: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}}]}}
"""


def ray(hosts: int = 1) -> str:
    return RAY.replace("SECRET", SECRET).replace("HOSTS", str(hosts))


def test_a_secret_of_rays_runtime_env_is_a_variable_of_the_pods() -> None:
    run = only(ray())
    assert run.run["env"] == {"WANDB_API_KEY": {"secret": "ray-secrets", "key": "WANDB_API_KEY"}}
    assert run.run["topology"]["runtime_env"] == {"env_vars": {"LEVEL": "info"}}
    assert [name for name, _ in run.hidden] == ["WANDB_API_KEY"]
    assert SECRET not in repr(told(Source("given.yaml", ray()))) + run.text


@pytest.mark.parametrize(("pointer", "value", "said"), [
    ("/topology/runtime_env/env_vars/WANDB_API_KEY", SECRET, HIDDEN),
    ("/initializer/dataset", {"env": {"API_KEY": SECRET}}, HIDDEN),
    ("/mounts/~1data", {"claim": "a"}, "{'claim': 'a'}"),
])  # fmt: skip
def test_what_is_left_out_is_shown_unless_it_is_secret(pointer: str, value: Any, said: str) -> None:
    assert shown(pointer, value) == said


def test_secrets_are_found_by_their_form_and_by_the_names_of_variables() -> None:
    pod = {"env": [{"name": "LEVEL", "value": "info"}, {"name": "DB_PASSWORD", "value": SECRET}], "args": [f"--token={TOKEN}"]}
    assert list(secrets_in({"pods": [pod]})) == ["/pods/0/env/1/value", "/pods/0/args/0"]


def test_a_run_may_not_tell_an_initializer_a_secret() -> None:
    run = only(FETCHING)
    run.run["initializer"]["dataset"]["env"] = {"SECRET_ACCESS_KEY": SECRET}
    with pytest.raises(CompileError) as failed:
        compile_run(validate_data(Run, run.run, "run.yaml", {}), run.compiled.cluster)
    assert [(one.code, one.where.pointer) for one in failed.value.findings if one.severity.value == "error"] == [
        ("TW409", "/initializer/dataset/env/SECRET_ACCESS_KEY"),
    ]
