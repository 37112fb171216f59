"""Volumes of a pod, as the mounts and the shared memory of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.findings.locate import at, escape
from trainwright.importing.words import Words
from trainwright.manifest.template.volumes import RESERVED_PATHS, SCRATCH, SHARED_MEMORY
from trainwright.objects.fields import items, mapping, text, texts, whole
from trainwright.units import Bytes, UnitError

Tree = Mapping[str, Any]


def say_mounts(words: Words, spec: Tree, container: Tree, place: str, maps: Mapping[str, Tree]) -> None:
    """What the container that trains mounts. ``place`` is the pointer of the container; ``maps`` are ConfigMaps by name."""
    volumes = {text(one, "/name"): one for _, one in items(spec, "/volumes")}
    read_only = at(container, "/securityContext/readOnlyRootFilesystem") is True
    for number, mount in items(container, "/volumeMounts"):
        source, path = f"{place}/volumeMounts/{number}", text(mount, "/mountPath").rstrip("/") or "/"
        volume = volumes.get(text(mount, "/name"))
        if volume is None or (path == SCRATCH and volume.get("emptyDir") == {} and read_only):
            continue  # the plan has scratch there beside a root that is read-only
        if path == SHARED_MEMORY:
            memory = text(container, "/resources/limits/memory") or text(container, "/resources/requests/memory")
            if size := _shared_memory(volume, memory):
                words.say("/resources/shared_memory", size, source)
            continue
        if path in RESERVED_PATHS:
            continue  # of our supervisor
        name = text(volume, "/configMap/name")
        if name in maps and _is_text(maps[name]):
            _say_files(words, volume, mount, path, maps[name], source)
            continue
        said = mount_of(volume, mount)
        if said is not None:
            words.say(f"/mounts/{escape(path)}", said, source)


def _shared_memory(volume: Tree, memory: str) -> str:
    """As stated. Without a size a pod may fill its whole memory, and is killed then: that is half of it here, as by default; and
    so is that of the node, which all its pods share.
    """
    stated, of_node = mapping(volume, "/emptyDir"), text(volume, "/hostPath/path").rstrip("/") == SHARED_MEMORY
    if text(stated, "/sizeLimit") or (text(stated, "/medium") != "Memory" and not of_node):
        return text(stated, "/sizeLimit")
    try:
        return str(Bytes(Bytes.parse(memory).bytes // 2)) if memory else ""
    except UnitError:
        return ""


def mount_of(volume: Tree, mount: Tree) -> dict[str, Any] | None:
    """One mount in a run's words; as Kubernetes writes it where these lack something; None for a volume without a source."""
    source = {key: value for key, value in volume.items() if key != "name"}
    kind, stated = next(((key, value) for key, value in source.items() if isinstance(value, dict)), ("", {}))
    if not kind:
        return None
    options = {**({"read_only": True} if mount.get("readOnly") is True else {}),
               **({"sub_path": text(mount, "/subPath")} if text(mount, "/subPath") else {})}  # fmt: skip
    said = _KINDS[kind](stated) if kind in _KINDS else None
    if said is None or not options.keys() <= _OPTIONS.get(kind, frozenset()):
        if kind == "persistentVolumeClaim":
            return None
        options.pop("read_only", None) if said is not None and kind in ("configMap", "secret", "projected") else None
        if said is not None and options.keys() <= _OPTIONS.get(kind, frozenset()):
            return {**said, **options}
        return {"volume": source, **options}
    return {**said, **options}


_OPTIONS = {
    "persistentVolumeClaim": frozenset({"read_only", "sub_path"}), "hostPath": frozenset({"read_only"}),
    "nfs": frozenset({"read_only"}), "csi": frozenset({"read_only"}), "image": frozenset({"sub_path"}),
}  # fmt: skip
"""Kind of volume -> what its mount in a run may state besides."""


def _only(stated: Tree, *known: str) -> bool:
    return stated.keys() <= set(known)


def _claim(stated: Tree) -> dict[str, Any] | None:
    read_only = {"read_only": True} if stated.get("readOnly") is True else {}
    return {"claim": text(stated, "/claimName"), **read_only}


def _scratch(stated: Tree) -> dict[str, Any] | None:
    return {"scratch": str(stated["sizeLimit"])} if stated.keys() == {"sizeLimit"} else None


def _keys(stated: Tree, field: str, name: str, *known: str) -> dict[str, Any] | None:
    listed = [one for _, one in items(stated, "/items")]
    if (
        not _only(stated, name, "items", "defaultMode", *known)
        or any("mode" in one for one in listed)
        or not text(stated, f"/{name}")
    ):
        return None
    chosen = {"items": {text(one, "/key"): text(one, "/path") for one in listed}} if listed else {}
    return {field: text(stated, f"/{name}"), **chosen, **_mode(stated)}


def _mode(stated: Tree) -> dict[str, Any]:
    mode = whole(stated, "/defaultMode")
    return {} if mode is None else {"mode": f"{mode:04o}"}


def _config_map(stated: Tree) -> dict[str, Any] | None:
    return _keys(stated, "config_map", "name")


def _secret(stated: Tree) -> dict[str, Any] | None:
    return _keys(stated, "secret", "secretName")


def _host_path(stated: Tree) -> dict[str, Any] | None:
    kind = {"type": text(stated, "/type")} if text(stated, "/type") else {}
    return {"host_path": text(stated, "/path").rstrip("/") or "/", **kind}


def _nfs(stated: Tree) -> dict[str, Any] | None:
    read_only = {"read_only": True} if stated.get("readOnly") is True else {}
    return {"nfs": text(stated, "/server"), "path": text(stated, "/path"), **read_only}


def _csi(stated: Tree) -> dict[str, Any] | None:
    if not _only(stated, "driver", "readOnly", "volumeAttributes", "nodePublishSecretRef"):
        return None
    attributes = {"attributes": dict(mapping(stated, "/volumeAttributes"))} if mapping(stated, "/volumeAttributes") else {}
    secret = {"secret": text(stated, "/nodePublishSecretRef/name")} if text(stated, "/nodePublishSecretRef/name") else {}
    read_only = {"read_only": True} if stated.get("readOnly") is True else {}
    return {"csi": text(stated, "/driver"), **attributes, **secret, **read_only}


def _image(stated: Tree) -> dict[str, Any] | None:
    return {"image": text(stated, "/reference")} if _only(stated, "reference") else None


def _ephemeral(stated: Tree) -> dict[str, Any] | None:
    wanted = mapping(stated, "/volumeClaimTemplate/spec")
    plain = _only(wanted, "accessModes", "resources", "storageClassName") and texts(wanted, "/accessModes") == ["ReadWriteOnce"]
    size = at(wanted, "/resources/requests/storage")
    if not plain or size is None or mapping(stated, "/volumeClaimTemplate/metadata"):
        return None
    kind = {"storage_class": text(wanted, "/storageClassName")} if text(wanted, "/storageClassName") else {}
    return {"ephemeral": str(size), **kind}


_KINDS = {
    "persistentVolumeClaim": _claim, "emptyDir": _scratch, "configMap": _config_map, "secret": _secret, "hostPath": _host_path,
    "nfs": _nfs, "csi": _csi, "image": _image, "ephemeral": _ephemeral,
}  # fmt: skip


def _is_text(config_map: Tree) -> bool:
    return bool(mapping(config_map, "/data")) and not mapping(config_map, "/binaryData")


def _say_files(words: Words, volume: Tree, mount: Tree, path: str, config_map: Tree, source: str) -> None:
    """Keys of a ConfigMap that is at hand: files of the run, so that an edit of one is a new run. Without a ``subPath`` they are
    all that is in their folder.
    """
    stated, data = mapping(volume, "/configMap"), mapping(config_map, "/data")
    listed = {text(one, "/key"): one for _, one in items(stated, "/items")}
    below = text(mount, "/subPath")
    for key, content in data.items():
        name = text(listed[key], "/path") if key in listed else key
        if (listed and key not in listed) or (below and name != below) or not isinstance(content, str):
            continue
        where = path if below else f"{path.rstrip('/')}/{name}"
        words.say(f"/files/{escape(where)}", content, source)
        mode = whole(listed.get(key, {}), "/mode", whole(stated, "/defaultMode"))
        if mode is not None and mode != 0o644:
            words.say(f"/file_modes/{escape(where)}", f"{mode:04o}", source)
    if not below and any(name.startswith(f"{path.rstrip('/')}/") for name in words.data.get("files", ())):
        words.say("/file_folders", [*words.data.get("file_folders", ()), path], source)
