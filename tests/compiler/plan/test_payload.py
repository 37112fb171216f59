"""Files of a run: what is in the ConfigMap, under which key, and where pods find it."""

from __future__ import annotations

import json

import pytest
from tests.compiler.example import Data, command, compiled, findings

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
