"""What builds images, starts them as the kubelet would, and measures them: all that needs neither root nor a container engine.

``make test-image`` does the whole; docs/images.md has what it printed.
"""

from __future__ import annotations

import configparser
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tools.images import build, layers
from tools.images.container import Image, Place, capabilities, configure, quantity, resources, seccomp

from trainwright.rehearsal.stated.objects import CannotPlayError, CannotWorkError, find_objects, objects_in
from trainwright.rehearsal.stated.pod import create_pod
from trainwright.rehearsal.stated.volumes import VolumeFolders

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "dist" / "laptop" / "training" / "runs" / "digits-ddp.k8s.yaml"
DEEPSPEED = ROOT / "trainer" / "images" / "deepspeed.Dockerfile"
SETTINGS = {
    "User": "1000:1000", "Env": ["PATH=/opt/trainer/bin:/usr/bin", "HOME=/nowhere"], "WorkingDir": "/tmp",
    "Entrypoint": ["trainwright-trainer"], "Cmd": ["--help"],
}

MACHINE = f"SCMP_ARCH_{os.uname().machine.upper()}"
_ALLOW: dict[str, Any] = {"action": "SCMP_ACT_ALLOW", "args": [], "comment": "", "includes": {}, "excludes": {}}
PROFILE = {
    "defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38,
    "archMap": [{"architecture": MACHINE, "subArchitectures": ["SCMP_ARCH_X32"]}],
    "syscalls": [
        {**_ALLOW, "names": ["read"]},
        {**_ALLOW, "names": ["mount"], "includes": {"caps": ["CAP_SYS_ADMIN"]}},
        {**_ALLOW, "names": ["mount"], "action": "SCMP_ACT_ERRNO", "excludes": {"caps": ["CAP_SYS_ADMIN"]}, "errnoRet": 1},
        {**_ALLOW, "names": ["set_tls"], "includes": {"arches": ["no-such-machine"]}},
    ],
}
"""In the form of containers-common."""


def template() -> dict[str, Any]:
    [found] = [one["spec"]["template"]["spec"] for one in objects_in(DIGITS) if one["kind"] == "Job"]
    return dict(found)


def place(folder: Path, spec: dict[str, Any] | None = None) -> Place:
    """Pod 1 of digits-ddp as committed, or with another pod specification."""
    manifests = objects_in(DIGITS)
    for manifest in manifests:
        if manifest["kind"] == "Job" and spec is not None:
            manifest["spec"]["template"]["spec"] = spec
    objects = find_objects(manifests)
    pod = create_pod(objects.slots[1], "10.77.0.3")
    (folder / "pod").mkdir()
    folders = VolumeFolders(claims=folder / "claims", pod=folder / "pod")
    return Place(objects, pod, folders, Path("/proc/7/ns/net"), "10.77.0.3\tdigits\n")


def configured(folder: Path, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    profile = folder / "seccomp.json"
    profile.write_text(json.dumps(PROFILE), encoding="utf-8")
    return configure(place(folder, spec), Image(Path("/image"), SETTINGS), profile)


# A pod as a container.


def test_a_container_has_the_rights_that_its_yaml_states_and_no_more(tmp_path: Path) -> None:
    found = configured(tmp_path)
    process = found["process"]
    assert found["root"] == {"path": "/image", "readonly": True}
    assert process["user"] == {"uid": 1000, "gid": 1000, "additionalGids": [1000]}
    assert process["noNewPrivileges"] is True
    assert not any(process["capabilities"].values())
    assert {"type": "network", "path": "/proc/7/ns/net"} in found["linux"]["namespaces"]
    assert {space["type"] for space in found["linux"]["namespaces"]} == {"pid", "ipc", "uts", "mount", "network"}
    assert found["linux"]["resources"]["memory"] == {"limit": 2 * 2**30}
    assert found["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
    assert found["linux"]["resources"]["cpu"] == {"shares": 1024, "period": 100_000, "quota": 100_000}


def test_its_command_and_variables_are_of_the_pod_before_those_of_the_image(tmp_path: Path) -> None:
    found = configured(tmp_path)
    process = found["process"]
    variables = dict(entry.split("=", 1) for entry in process["env"])
    assert process["args"] == ["trainwright-trainer", "supervise"]
    assert process["cwd"] == "/tmp"
    assert variables["PATH"] == "/opt/trainer/bin:/usr/bin"
    assert variables["HOME"] == "/tmp"
    assert variables["TRAINWRIGHT_BIND_ADDRESS"] == "10.77.0.3"
    assert variables["JOB_COMPLETION_INDEX"] == "1"
    assert found["hostname"] == variables["HOSTNAME"] == "digits-ddp-0bpzsgr7-1"


def test_it_has_the_mounts_of_its_yaml_and_those_of_every_container(tmp_path: Path) -> None:
    mounts = {mount["destination"]: mount for mount in configured(tmp_path)["mounts"]}
    stated = {mount["mountPath"] for mount in template()["containers"][0]["volumeMounts"]}
    runtime = {"/proc", "/dev", "/dev/pts", "/dev/mqueue", "/sys"}
    kubelet = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"}
    assert mounts.keys() == stated | runtime | kubelet
    assert mounts["/dev/shm"]["type"] == "tmpfs"
    assert f"size={256 * 2**20}" in mounts["/dev/shm"]["options"]
    assert mounts["/etc/trainwright"]["options"][-1] == "ro"
    specification = json.loads((Path(mounts["/etc/trainwright"]["source"]) / "run.json").read_text(encoding="utf-8"))
    assert specification["run"] == "digits-ddp"
    assert Path(mounts["/checkpoints"]["source"]) == tmp_path / "claims" / "training-checkpoints"
    assert Path(mounts["/checkpoints"]["source"]).stat().st_mode & 0o7777 == 0o2775


def test_what_the_pod_leaves_out_the_image_decides(tmp_path: Path) -> None:
    spec = template()
    [container] = spec["containers"]
    spec["securityContext"] = {"runAsNonRoot": True}
    del container["command"], container["securityContext"]
    container["args"] = ["contract"]
    found = configured(tmp_path, spec)
    assert found["process"]["args"] == ["trainwright-trainer", "contract"]
    assert found["process"]["user"]["uid"] == 1000
    assert found["process"]["noNewPrivileges"] is False
    assert "CAP_CHOWN" in found["process"]["capabilities"]["bounding"]
    assert "effective" not in found["process"]["capabilities"]
    assert found["root"]["readonly"] is False
    assert "seccomp" not in found["linux"]


def test_root_where_the_pod_forbids_it_is_refused(tmp_path: Path) -> None:
    spec = template()
    spec["securityContext"] = {"runAsNonRoot": True, "runAsUser": 0}
    with pytest.raises(CannotWorkError, match="runAsNonRoot and image will run as root"):
        configured(tmp_path, spec)


def test_a_pod_of_two_containers_is_refused(tmp_path: Path) -> None:
    spec = template()
    spec["containers"] = [*spec["containers"], {"name": "other", "image": "other"}]
    with pytest.raises(CannotPlayError, match="it has 2 containers, and this plays pods of one"):
        configured(tmp_path, spec)


def test_capabilities_are_dropped_and_added_by_name() -> None:
    assert capabilities({"drop": ["ALL"]}) == []
    assert capabilities({"drop": ["ALL"], "add": ["IPC_LOCK"]}) == ["CAP_IPC_LOCK"]
    assert "CAP_NET_RAW" not in capabilities({"drop": ["NET_RAW"]})
    assert "CAP_CHOWN" in capabilities({})


@pytest.mark.parametrize(("text", "number"), [("1", 1), (2, 2), ("500m", 0.5), ("2Gi", 2**31), ("1.5G", 1.5e9), ("256Mi", 2**28)])
def test_quantities(text: object, number: float) -> None:
    assert quantity(text) == number


def test_a_wrong_quantity_is_said() -> None:
    with pytest.raises(ValueError, match="2 GB is no quantity of Kubernetes"):
        quantity("2 GB")


def test_a_pod_without_limits_has_none() -> None:
    assert resources({}) == {"devices": [{"allow": False, "access": "rwm"}]}


def test_the_profile_of_system_calls_is_for_a_container_without_capabilities(tmp_path: Path) -> None:
    (tmp_path / "seccomp.json").write_text(json.dumps(PROFILE), encoding="utf-8")
    found = seccomp(tmp_path / "seccomp.json")
    assert found["architectures"] == [MACHINE, "SCMP_ARCH_X32"]
    assert found["syscalls"] == [
        {"names": ["read"], "action": "SCMP_ACT_ALLOW"}, {"names": ["mount"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
    ]


# Building.


def test_pip_of_a_build_finds_packages_where_this_machine_does(tmp_path: Path) -> None:
    wheels, index = tmp_path / "wheels", tmp_path / "index" / "simple"
    wheels.mkdir()
    index.mkdir(parents=True)
    listing = "\n".join([
        f":env:.find-links='{wheels} https://example.com/wheels'", ":env:.quiet='3'", "global.find-links='/elsewhere'",
        f"global.extra-index-url='file://{index}'", "global.target='/usr/local'", "freeze.timeout='10'",
    ])
    options = build.pip_options(listing)
    assert options == {"find-links": f"{wheels} https://example.com/wheels", "extra-index-url": f"file://{index}"}
    assert set(build.local_places(options)) == {str(wheels), str(index.parent)}
    build.write_settings(tmp_path / "pip.conf", options)
    read = configparser.ConfigParser(interpolation=None)
    read.read(tmp_path / "pip.conf")
    assert read["global"]["find-links"].split() == [str(wheels), "https://example.com/wheels"]


def test_pip_itself_takes_what_is_written(tmp_path: Path) -> None:
    """The listing of pip, as settings, is listed again as it was."""
    file = tmp_path / "pip.conf"
    build.write_settings(file, {"index-url": "https://example.com/a%20b/simple", "find-links": "/one /two"})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], env=environment | {"PIP_CONFIG_FILE": str(file)},
        capture_output=True, text=True, check=True,
    )
    options = build.pip_options(listing.stdout)
    assert options["index-url"] == "https://example.com/a%20b/simple"
    assert options["find-links"].split() == ["/one", "/two"]


def test_the_stage_of_a_device_is_named_in_full() -> None:
    text = DEEPSPEED.read_text(encoding="utf-8")
    assert "FROM build-cpu AS build\n" in build.chosen(text, [])
    assert "FROM build-cuda AS build\n" in build.chosen(text, ["EXTRAS=s3", "DEVICE=cuda"])


def test_each_family_names_its_base() -> None:
    for path in sorted((ROOT / "trainer" / "images").glob("*.Dockerfile")):
        assert "@sha256:" in build.own_base(path.name.removesuffix(".Dockerfile"))


def test_without_buildah_the_build_says_what_to_install(tmp_path: Path) -> None:
    script = ROOT / "tools" / "images" / "build.py"
    ended = subprocess.run(
        [sys.executable, str(script), "torch"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == "build.py: buildah is not installed: apt-get install buildah\n"


# Measuring.


def image_layout(folder: Path) -> None:
    """An image of two layers in the OCI image layout."""
    def blob(content: bytes) -> dict[str, Any]:
        name = hashlib.sha256(content).hexdigest()
        (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        (folder / "blobs" / "sha256" / name).write_bytes(content)
        return {"digest": f"sha256:{name}", "size": len(content)}

    def layer(*files: tuple[str, int]) -> dict[str, Any]:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, size in files:
                member = tarfile.TarInfo(name)
                member.size = size
                archive.addfile(member, io.BytesIO(bytes(size)))
        return blob(gzip.compress(buffer.getvalue()))

    stored = [
        layer(("usr/bin/python3.11", 3_000_000), ("etc/passwd", 10)),
        layer(("opt/trainer/lib/python3.11/site-packages/torch/lib/libtorch.so", 9_000_000),
              ("opt/trainer/lib/python3.11/site-packages/six.py", 200_000)),
    ]
    history = [
        {"created_by": "/bin/sh"}, {"created_by": "/bin/sh -c #(nop) ENV HOME=/tmp", "empty_layer": True},
        {"created_by": "/bin/sh -c #(nop) COPY dir:123 in /opt/trainer "},
    ]
    configuration = blob(json.dumps({"history": history}).encode())
    manifest = blob(json.dumps({"config": configuration, "layers": stored}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [manifest]}), encoding="utf-8")


def test_layers_are_measured_with_what_makes_them_large(tmp_path: Path) -> None:
    image_layout(tmp_path)
    base, copied = found = layers.read_layers(tmp_path)
    assert (base.unpacked, copied.unpacked) == (3_000_010, 9_200_000)
    assert copied.pulled < 100_000
    assert copied.made_by == "COPY dir in /opt/trainer"
    assert layers.layer_table(found)[2:] == [
        "| `/bin/sh` | 3 | 0 |", "| `COPY dir in /opt/trainer` | 9 | 0 |", "| all | 12 | 0 |",
    ]
    assert layers.part_table(found)[2:4] == ["| `torch` | 9 |", "| `/usr/bin` | 3 |"]
