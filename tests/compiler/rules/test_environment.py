"""Environment variables: those that are taken, those that do nothing, and those that are secret."""

from __future__ import annotations

import pytest
from tests.compiler.example import codes, command, compiled, findings, message, script


@pytest.mark.parametrize(
    "name",
    [
        "JOB_COMPLETION_INDEX",
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "PET_NODE_RANK",
        "PET_RDZV_BACKEND",
        "TRAINWRIGHT_SPEC",
        "TRAINWRIGHT_ANYTHING",
        "TORCHELASTIC_RESTART_COUNT",
        "NCCL_SOCKET_IFNAME",
    ],
)
@pytest.mark.parametrize(
    "work", [{}, script("python", "train.py"), command("torchrun", "train.py")], ids=["trainer", "script", "command"]
)
def test_variables_of_the_plan_are_taken(name: str, work: dict[str, object]) -> None:
    assert codes(work | {"env": {name: "1"}}) == ["TW403"]


def test_the_finding_says_who_sets_the_variable() -> None:
    assert "set by the controller: the pod's completion index" in message({"env": {"JOB_COMPLETION_INDEX": "0"}})
    assert "set by the supervisor for each rank" in message({"env": {"RANK": "0"}})
    assert "set by torchrun for each rank" in message(command("torchrun", "train.py") | {"env": {"RANK": "0"}})


def test_a_reference_to_a_secret_cannot_take_them_either() -> None:
    assert codes({"env": {"MASTER_ADDR": {"secret": "s", "key": "k"}}}) == ["TW403"]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "HOME", "HF_HUB_OFFLINE", "PYTHONUNBUFFERED"])
def test_a_default_gives_way_to_the_run(name: str) -> None:
    result = compiled({"env": {name: "7"}})
    assert result.findings == ()
    assert [variable.value for variable in result.plan.environment if variable.name == name] == ["7"]


@pytest.mark.parametrize("name", ["NCCL_TREE_THRESHOLD", "NCCL_LL_THRESHOLD", "NCCL_SINGLE_RING_THRESHOLD", "NCCL_TIMEOUT"])
def test_removed_settings_of_nccl(name: str) -> None:
    assert codes({"env": {name: "0"}}) == ["TW407"]


@pytest.mark.parametrize(
    "name", ["NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_ALGO", "NCCL_NET_GDR_LEVEL"]
)
def test_risky_settings_of_nccl(name: str) -> None:
    assert codes({"env": {name: "4"}}) == ["TW408"]


@pytest.mark.parametrize(
    ("value", "fix"), [("mlx5", "'=mlx5'"), ("^mlx5_1", "'^=mlx5_1'"), ("=mlx5_0", None), ("^=mlx5_0", None)]
)
def test_adapters_are_named_exactly(value: str, fix: str | None) -> None:
    found = findings({"env": {"NCCL_IB_HCA": value}})
    assert [finding.code for finding in found] == (["TW408"] if fix else [])
    assert all(str(fix) in finding.fix for finding in found)


@pytest.mark.parametrize(
    ("debug", "expected"), [(None, ["TW408"]), ("WARN", ["TW408"]), ("INFO", []), ("info", []), ("TRACE", [])]
)
def test_subsystems_need_debug_output(debug: str | None, expected: list[str]) -> None:
    env = {"NCCL_DEBUG_SUBSYS": "ALL"} | ({"NCCL_DEBUG": debug} if debug else {})
    assert codes({"env": env}) == expected


def test_a_real_setting_with_a_similar_name_is_free() -> None:
    assert codes({"env": {"NCCL_IB_TIMEOUT": "22", "NCCL_DEBUG": "INFO", "NCCL_IB_GID_INDEX": "3"}}) == []


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
