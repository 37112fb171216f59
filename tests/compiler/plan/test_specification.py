"""The files of a run: its specification, and its own."""

from __future__ import annotations

import json

import pytest
from tests.compiler.example import RUN, Data, command, compiled, findings, script
from tests.compiler.findings.page import overlay

from trainwright.findings import CompileError
from trainwright.reading import validate_data
from trainwright.report.plan import plan_rows
from trainwright.run import Run
from trainwright_trainer.contract.training import Training


def spec(run: Data) -> Data:
    """As the pods read it."""
    found = compiled(run).resolution.spec
    assert found is not None
    return found.model_dump(mode="json", exclude_none=True)


@pytest.mark.parametrize("nothing", [
    {"watchdog": {}}, {"watchdog": {"starting": "30m", "slowdown": 10}}, {"preflight": {}}, {"preflight": {"budget": "60s"}},
    {"workload": {"metrics": []}}, {"checkpoints": {}}, {"checkpoints": {"failed_saves": 3}},
    {"workload": {"skip_unreadable": 10}},
])
def test_what_is_said_as_it_would_be_anyway_moves_nothing(nothing: Data) -> None:
    assert compiled(nothing).identity == compiled({}).identity


def test_the_watchdogs_limits() -> None:
    limits = spec({"watchdog": {"training": "10m", "restoring": "2h", "slowdown": 20}})["lifecycle"]["watchdog"]
    assert limits == {
        "starting_seconds": 1800, "restoring_seconds": 7200, "warming_up_seconds": 1800, "training_seconds": 600, "slowdown": 20,
        "saving_seconds": 1200,
    }


def test_the_checks_of_nodes() -> None:
    checks = {
        "when": "always", "budget": "2m", "min_tflops": 400, "min_share_of_median": 0, "min_memory_gigabytes_per_second": 2500,
        "min_bus_gigabytes_per_second": 150, "max_storage": "20s", "max_clock_skew": "2s",
    }
    assert spec({"preflight": checks})["lifecycle"]["preflight"] == {
        "when": "always", "budget_seconds": 120, "min_tflops": 400, "min_share_of_median": 0,
        "min_memory_gigabytes_per_second": 2500, "min_bus_gigabytes_per_second": 150, "max_storage_seconds": 20,
        "max_clock_skew_seconds": 2,
    }


def test_what_our_trainer_does_with_steps_saves_and_metrics() -> None:
    sinks = [{"to": "tensorboard"}, {"to": "wandb", "project": "vision", "mode": "offline"}]
    saves = {"save": "blocking", "failed_saves": 0}
    work = spec({"workload": {"metrics": sinks, "skip_non_finite": 3}, "checkpoints": saves})["work"]
    assert (work["metrics"], work["skip_non_finite"]) == (sinks, 3)
    assert saves.items() <= work["checkpoints"].items()


def test_a_program_of_the_users_is_told_its_address() -> None:
    run = script("python", "x.py") | {"checkpoints": {"store": "s3://example-checkpoints/vision"}, "mounts": None}
    run |= {"service_account": "trainer"}
    plan = compiled(run).plan
    assert plan.checkpoint is not None
    assert plan.checkpoint.directory == f"s3://example-checkpoints/vision/example/{plan.checkpoint.lineage}"
    values = {variable.name: variable.value for variable in plan.environment}
    assert values["TRAINWRIGHT_CHECKPOINT_DIRECTORY"] == plan.checkpoint.directory == spec(run)["work"]["state_directory"]


def test_an_object_store_is_mounted_nowhere() -> None:
    result = compiled({"checkpoints": {"store": "s3://example-checkpoints"}, "mounts": None, "service_account": "trainer"})
    (job,) = [manifest for manifest in result.manifests if manifest["kind"] == "Job"]
    assert not [volume for volume in job["spec"]["template"]["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    assert result.resolution.spec is not None
    assert isinstance(result.resolution.spec.work, Training)
    assert result.resolution.spec.work.checkpoints.directory.startswith("s3://example-checkpoints/example/")


def test_the_plan_shows_what_is_not_the_default() -> None:
    sinks = [{"to": "tensorboard"}, {"to": "wandb", "project": "vision", "entity": "lab"}]
    run = {
        "workload": {"metrics": sinks, "skip_non_finite": 1}, "env": {"WANDB_API_KEY": {"secret": "wandb", "key": "key"}},
        "watchdog": {"training": "10m", "slowdown": 2.5}, "preflight": {"when": "always", "min_tflops": 400.0},
        "checkpoints": {"save": "blocking"},
    }
    rows, plain = dict(plan_rows(compiled(run))), dict(plan_rows(compiled({})))
    assert rows["not finite"] == "up to 1 step in a row left out"
    assert rows["metrics"] == "TensorBoard, Weights & Biases lab/vision"
    assert rows["watchdog"] == "training 10 min, slowdown 2.5"
    assert rows["preflight"] == "when always, min tflops 400"
    assert rows["checkpoints"].endswith(" grace, training waits for it")
    assert not plain.keys() & {"not finite", "metrics", "watchdog", "preflight"}
    assert plain["checkpoints"].endswith(" grace")


FILES: Data = {"/etc/app/a.json": {"depth": 3, "names": ["ä", None]}, "/etc/app/b.txt": "line\n", "/opt/my app/b.txt": ""}


def test_texts_stay_as_they_are_and_mappings_become_json() -> None:
    result = compiled({"files": FILES})
    data = result.manifests[0]["data"]
    assert list(data) == ["run.json", "file-0-a.json", "file-1-b.txt", "file-2-b.txt"]
    assert json.loads(data["file-0-a.json"]) == FILES["/etc/app/a.json"]
    assert "ä" in data["file-0-a.json"], "as people write it"
    assert (data["file-1-b.txt"], data["file-2-b.txt"]) == ("line\n", "")


def test_each_file_is_mounted_alone_so_that_its_folder_stays_as_it_is() -> None:
    result = compiled({"files": FILES})
    pod = result.manifests[-1]["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    keys = dict(zip(FILES, ("file-0-a.json", "file-1-b.txt", "file-2-b.txt"), strict=True))
    for path, key in keys.items():
        assert (mounts[path]["subPath"], mounts[path]["readOnly"]) == (key, True)
    assert "subPath" not in mounts["/etc/trainwright"]


def test_a_folder_of_files_alone_is_mounted_as_a_whole() -> None:
    others: Data = {"/opt/my app/sub/run.json": "x", "/opt/my app/sub/.hidden": "", "/opt/my app/b.txt": "another"}
    asked: Data = {"files": {**FILES, **others}, "file_folders": ["/opt/my app"], "file_modes": {"/opt/my app/b.txt": "0555"}}
    result = compiled(asked)
    pod = result.manifests[-1]["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume.get("configMap") for volume in pod["volumes"]}
    folder = mounts["/opt/my app"]
    assert (folder.get("subPath"), folder["readOnly"]) == (None, True)
    assert not any(path.startswith("/opt/my app/") for path in mounts), "its files are not mounted by themselves too"
    assert volumes[folder["name"]] == {
        "name": result.plan.name,
        "items": [
            {"key": "b.txt", "path": "b.txt", "mode": 0o555},
            {"key": "file-3-.hidden", "path": "sub/.hidden"},
            {"key": "file-4-run.json", "path": "sub/run.json"},  # the specification is called so
        ],
    }
    assert "items" not in volumes["spec"], "no file there has a mode of its own"
    assert mounts["/etc/app/a.json"]["subPath"] == "file-0-a.json"


@pytest.mark.parametrize("name", ["run.json", "ds_config.json", "requirements.txt", "hostfile", "file-1-b.txt", ".hidden", "a b"])
def test_a_file_in_a_folder_has_no_key_of_ours_and_none_that_another_has(name: str) -> None:
    asked: Data = {"files": {f"/app/{name}": "one", "/etc/b.txt": "two"}, "file_folders": ["/app"]}
    (config,) = [manifest for manifest in compiled(command("train") | asked).manifests if manifest["kind"] == "ConfigMap"]
    assert config["data"].get(name) != "one"
    assert sorted(config["data"].values()) == ["one", "two"]


def test_a_mode_of_all_files_in_a_folder_is_the_folders() -> None:
    files = {"/app/a.sh": "a", "/app/b.sh": "b"}
    result = compiled({"files": files, "file_folders": ["/app"], "file_modes": dict.fromkeys(files, "0555")})
    [volume] = [volume for volume in result.manifests[-1]["spec"]["template"]["spec"]["volumes"] if volume["name"] == "files-0"]
    assert volume["configMap"]["defaultMode"] == 0o555
    assert volume["configMap"]["items"] == [{"key": f"{name}.sh", "path": f"{name}.sh"} for name in "ab"]


@pytest.mark.parametrize(("asked", "says"), [
    ({"file_folders": ["/app"]}, "none of files is in /app"),
    ({"files": {"/app/a": "x"}, "file_folders": ["/app/a"]}, "none of files is in /app/a"),
    ({"files": {"/app/b/a": "x"}, "file_folders": ["/app", "/app/b"]}, "/app/b and /app are one folder"),
    ({"files": {"/app/b/a": "x"}, "file_folders": ["/app/b", "/app"]}, "/app and /app/b are one folder"),
])
def test_folders_that_hold_no_files_or_each_other(asked: Data, says: str) -> None:
    with pytest.raises(CompileError, match=says):
        validate_data(Run, overlay(RUN, asked), None, {})


@pytest.mark.parametrize(("asked", "says"), [
    ({"files": {"/app/a": "x"}, "file_folders": ["/app"], "mounts": {"/app/data": {"scratch": "1Gi"}}}, "as /app/data is"),
    ({"files": {"/app/a": "x"}, "file_folders": ["/app"], "mounts": {"/app": {"scratch": "1Gi"}}}, "as /app is"),
    ({"files": {"/usr/a": "x"}, "file_folders": ["/usr"]}, "would hide what every program in the image needs"),
    ({"files": {"/tmp/a": "x"}, "file_folders": ["/tmp"], "security": {"read_only_root": True}}, "as /tmp is"),
])
def test_folders_in_which_something_is_mounted_or_that_hide_the_system(asked: Data, says: str) -> None:
    found = [finding for finding in findings(command("train") | asked) if finding.code == "TW233"]
    assert any(says in finding.message and finding.where.pointer.startswith("/file_folders/") for finding in found)


def test_a_command_has_its_files_and_no_specification() -> None:
    result = compiled(command("train") | {"files": {"/etc/app/a.txt": "x"}})
    (config,) = [manifest for manifest in result.manifests if manifest["kind"] == "ConfigMap"]
    assert list(config["data"]) == ["file-0-a.txt"]
    assert not [one for one in compiled(command("train")).manifests if one["kind"] == "ConfigMap"]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/a/Bilder ü.json", "file-0-Bilder__.json"),
        ("/a/.hidden", "file-0-.hidden"),
        ("/a/" + "x" * 250, "file-0-" + "x" * 200),
        ("/a/" + "名" * 80 + ".txt", "file-0-" + "_" * 80 + ".txt"),
    ],
)
def test_any_name_becomes_a_key(path: str, key: str) -> None:
    assert list(compiled({"files": {path: "x"}}).manifests[0]["data"])[1] == key


def test_a_file_moves_the_identity_by_its_place_and_by_its_content() -> None:
    names = {compiled({"files": {path: text}}).plan.name for path in ("/a/x", "/b/x") for text in ("1", "2")}
    assert len(names) == 4


@pytest.mark.parametrize(("size", "codes"), [(786_432, []), (786_433, ["TW237"])])
def test_what_fits_into_a_config_map(size: int, codes: list[str]) -> None:
    half = size // 2
    files = {"/a/one": "x" * half, "/a/two": "x" * (size - half)}
    assert [finding.code for finding in findings({"files": files})] == codes


def test_the_limit_counts_bytes_not_characters() -> None:
    assert [finding.code for finding in findings({"files": {"/a/one": "名" * 262_145}})] == ["TW237"]
