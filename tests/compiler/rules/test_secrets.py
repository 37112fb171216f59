"""Nothing secret reaches dist/, in whatever field somebody writes it."""

from __future__ import annotations

import pytest
from tests.compiler.example import RUN, Data, codes, command, findings, message, pod, script

from trainwright.variables.secret import has_secret


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "token", "SSH_PASSPHRASE", "MY_SECRET"]
)
def test_names_of_secrets(name: str) -> None:
    assert codes({"env": {name: "not-a-real-one"}}) == ["TW409"]
    assert codes({"env": {name: {"secret": "s", "key": "k"}}}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "512"),
        ("PAD_TOKEN", "<pad>"),
        ("TOKEN_BUDGET", "1000"),
        ("USE_TOKEN", "true"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/gcp/key.json"),
        ("HF_TOKEN", ""),
        ("SECRET_NAME", "x"),
    ],
)
def test_names_that_only_sound_like_secrets(name: str, value: str) -> None:
    assert codes({"env": {name: value}}) == []


# Joined from parts, so that scanners of repositories do not take them for real ones.
TOKENS = [
    "hf_" + "a" * 34,
    "ghp_" + "A1" * 18,
    "AKIA" + "ABCDEFGH12345678",
    "sk-" + "a1" * 20,
    "-----BEGIN " + "RSA PRIVATE KEY-----\nx",
    "https://user:" + "pass@registry.example.com/x",
]


@pytest.mark.parametrize("value", TOKENS)
def test_forms_of_secrets(value: str) -> None:
    (finding,) = findings({"env": {"PLAIN": value}})
    assert finding.code == "TW409"
    assert value not in finding.message + finding.fix


def test_a_finding_on_a_secret_never_repeats_it() -> None:
    assert "hunter2" not in message({"env": {"DB_PASSWORD": "hunter2"}})


RANDOM = "wJalrXUtnFEMIK7MDENGbPxRfiCY"


@pytest.mark.parametrize(("text", "held"), [
    (f"export AWS_SECRET_ACCESS_KEY={RANDOM}", True),
    (f"os.environ['DB_PASSWORD'] = '{RANDOM}'", True),
    (f'{{"WANDB_API_KEY": "{"0a" * 20}"}}', True),
    (f"export CHECKSUM={'0a' * 20}", False),
    ("export PULL_SECRET=my-registry-secret-2026-1", False),
    ("export DB_SECRET=projects/12345/secrets/Database1/versions/latest", False),
    ("export HF_TOKEN=$(cat /run/secrets/HuggingFaceToken1)", False),
    ("MAX_TOKENS=1048576000000000000000000000000000000000", False),
])  # fmt: skip
def test_what_a_text_gives_a_variable_that_is_called_like_a_secret(text: str, held: bool) -> None:
    assert has_secret(text) is held


TOKEN = "hf_" + "b" * 34
AMOUNTS = {"cpu": "100m", "memory": "128Mi", "image": RUN["image"]}


@pytest.mark.parametrize(("run", "pointer", "fix"), [
    (script("python", "train.py", f"--token={TOKEN}"), "/workload/command/2", "environment"),
    ({"files": {"/etc/app/key.json": {"env": {"key": TOKEN}}}}, "/files/~1etc~1app~1key.json/env/key", "Secret"),
    ({"annotations": {"example.com/note": TOKEN}}, "/annotations/example.com~1note", "Secret"),
    ({"containers": [{"name": "helper", "kind": "sidecar", "args": ["--token", TOKEN], **AMOUNTS}]},
     "/containers/0/args/1", "$(NAME)"),
    ({"containers": [{"kind": "sidecar", "container": {"name": "helper", "image": RUN["image"], "args": [TOKEN]}}]},
     "/containers/0/container/args/0", "$(NAME)"),
    (pod({"containers": [{"name": "trainer", "lifecycle": {"preStop": {"exec": {"command": ["say", TOKEN]}}}}]}),
     "/overrides/pod/node/containers/0/lifecycle/preStop/exec/command/1", "environment"),
    ({"roles": {"cache": {"pods": 1, "command": ["serve", TOKEN]}}, "target": "job-set"} | command("x"),
     "/roles/cache/command/1", "$(NAME)"),
])  # fmt: skip
def test_a_secret_is_found_wherever_it_stands_and_not_repeated(run: Data, pointer: str, fix: str) -> None:
    (finding,) = [one for one in findings(run) if one.code == "TW409"]
    assert finding.where.pointer == pointer
    assert fix in finding.fix
    assert TOKEN not in finding.message + finding.fix


def test_one_of_a_pool_is_found_too() -> None:
    pods = {"annotations": {"example.com/note": TOKEN}}
    (finding,) = [one for one in findings({}, {"node_pools": {"h100": {"pods": pods}}}) if one.code == "TW409"]
    assert finding.where.pointer == "/node_pools/h100/pods/annotations/example.com~1note"


@pytest.mark.parametrize("text", [
    "task-risk-assessment-model-training-2026", "whf_" + "a" * 34, "https://user@example.com/x", "disk-" + "a" * 30,
])  # fmt: skip
def test_a_long_name_is_no_secret(text: str) -> None:
    assert codes({"annotations": {"example.com/note": text}}) == []
