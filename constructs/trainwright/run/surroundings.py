"""What a pod finds around its program: volumes, and variables that come from elsewhere."""

import re
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, JsonValue, model_validator

from trainwright.model import ByKeys, DnsLabel, DnsSubdomain, EnvName, Model, NodePath
from trainwright.units import Bytes, Duration
from trainwright_trainer.contract.base import ListOf, MountPath, PlacedError

ConfigKey = Annotated[str, Field(pattern=r"^([-_a-zA-Z0-9]|\.[-_a-zA-Z0-9])[-._a-zA-Z0-9]*$", max_length=253)]
"""A key of a Secret or ConfigMap."""


def _inside(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("it must stay inside the volume; remove '..'")
    return path


RelativePath = Annotated[str, Field(pattern=r"^[^/\x00][^\x00]*$", max_length=512), AfterValidator(_inside)]


def _a_file(path: str) -> str:
    if path.startswith(".."):
        raise ValueError("its name starts with '..', as the node's own folders in a volume do; write another name")
    return path


FilePath = Annotated[RelativePath, AfterValidator(_a_file)]
"""Path of a file in a volume that the node fills (core/v1 validation, ValidateLocalNonReservedPath)."""

FileMode = Annotated[str, Field(pattern=r"^0?[0-7]{3}$", examples=["0555"])]
"""Permissions as `chmod` reads them, in quotes: YAML would take 0400 for four hundred."""


_FIELDS = r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^'\x00]+'\]|spec\.(nodeName|serviceAccountName)" \
    r"|status\.(hostIPs?|podIPs?)"

FieldPath = Annotated[str, Field(pattern=f"^({_FIELDS})$", max_length=512)]
"""A field of a pod that its node can fill into a variable."""


_IN_A_FILE = r"^metadata\.(name|namespace|uid|labels|annotations|(labels|annotations)\['[^'\x00]+'\])$"


def _fits_a_file(field: str) -> str:
    if not re.match(_IN_A_FILE, field):
        raise ValueError(f"{field[:80]} is no field that a file can hold, as metadata.name and metadata.labels['KEY'] are; "
                         "write one of the pod's metadata, or a variable under env")  # fmt: skip
    return field


FileField = Annotated[str, AfterValidator(_fits_a_file), Field(pattern=_IN_A_FILE, max_length=512)]
"""A field of a pod that a file can hold (core/v1 validation, validVolumeDownwardAPIFieldPathExpressions)."""


def _without_backsteps(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("the API server takes no '..' in a path of the node; write the path that is meant")
    return path


class ResourceClaim(Model):
    """Devices that a driver gives to pods by dynamic resource allocation (DRA), such as adapters or a channel between GPUs."""

    template: DnsSubdomain | None = None
    """A ResourceClaimTemplate of the namespace: each pod gets a claim of its own."""
    claim: DnsSubdomain | None = None
    """A ResourceClaim of the namespace, which all pods share."""
    request: DnsLabel | None = None
    """The one of the claim's requests whose devices the container gets; default: those of all."""

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.template is None) == (self.claim is None):
            said = "names both a template and a claim" if self.claim else "names neither a template nor a claim"
            raise ValueError(f"it {said}; write one of template and claim")
        return self


class ClaimMount(Model):
    """A PersistentVolumeClaim of the namespace."""

    claim: DnsSubdomain
    """A claim of the namespace, as the cluster profile names it."""
    read_only: bool = False
    """Whether the mount is read-only; it should be for data sets."""
    sub_path: Annotated[str, Field(pattern=r"^[^/].*$", max_length=512), AfterValidator(_inside)] | None = None
    """A folder inside the volume."""


class ScratchMount(Model):
    """Empty space on the node, which is deleted with the pod."""

    scratch: Bytes
    """Its size; the space is deleted with the pod."""


class EphemeralMount(Model):
    """A volume of the pod's own from a storage class, which is deleted with the pod."""

    ephemeral: Bytes
    """Its size."""
    storage_class: DnsSubdomain | None = None
    """Default: the cluster's."""


class ConfigMapMount(Model):
    """The keys of a ConfigMap as files, which a pod can only read."""

    config_map: DnsSubdomain
    """A ConfigMap of the namespace."""
    items: dict[ConfigKey, FilePath] = Field(default_factory=dict)
    """Key -> path below the mount; default: every key under its own name."""
    mode: FileMode | None = None
    """Permissions of the files, such as "0555" for programs; default: "0644"."""


class SecretMount(Model):
    """The keys of a Secret as files, which a pod can only read."""

    secret: DnsSubdomain
    """A Secret of the namespace."""
    items: dict[ConfigKey, FilePath] = Field(default_factory=dict)
    """Key -> path below the mount; default: every key under its own name."""
    mode: FileMode | None = None
    """Permissions of the files, such as "0400" for a private key; default: "0644"."""


class HostPathMount(Model):
    """A path of the node, in a namespace whose level allows it."""

    host_path: Annotated[NodePath, AfterValidator(_without_backsteps)]
    """Path on the node."""
    type: Literal["Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"] | None = None
    """What must be there before the pod starts; default: nothing is checked."""
    read_only: bool = False
    """Whether the mount is read-only."""


class NfsMount(Model):
    """An export of an NFS server, mounted by the node."""

    nfs: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9.:]*[A-Za-z0-9])?$", max_length=253)]
    """Name or address of the server."""
    path: MountPath
    """The export."""
    read_only: bool = False
    """Whether the mount is read-only."""


class CsiMount(Model):
    """A volume that a CSI driver makes for each pod, such as a bucket."""

    csi: DnsSubdomain
    """Name of the driver."""
    attributes: dict[str, str] = Field(default_factory=dict)
    """What the driver reads: its documentation says which."""
    secret: DnsSubdomain | None = None
    """A Secret of the namespace that the driver is given."""
    read_only: bool = False
    """Whether the mount is read-only."""


class ImageMount(Model):
    """The files of an image, which a pod can only read."""

    image: Annotated[str, Field(min_length=1, max_length=1024)]
    """The image, pinned by digest."""
    sub_path: RelativePath | None = None
    """A folder inside the image; from Kubernetes 1.33 on."""


class ProjectedConfigMap(Model):
    """Keys of a ConfigMap as files among others."""

    config_map: DnsSubdomain
    """A ConfigMap of the namespace."""
    items: dict[ConfigKey, FilePath] = Field(default_factory=dict)
    """Key -> path below the mount; default: every key under its own name."""


class ProjectedSecret(Model):
    """Keys of a Secret as files among others."""

    secret: DnsSubdomain
    """A Secret of the namespace."""
    items: dict[ConfigKey, FilePath] = Field(default_factory=dict)
    """Key -> path below the mount; default: every key under its own name."""


class ProjectedFields(Model):
    """Fields of the pod as files among others."""

    fields: Annotated[dict[FilePath, FileField], Field(min_length=1)]
    """Path below the mount -> field of the pod's metadata, such as `metadata.labels['KEY']`."""


class ProjectedToken(Model):
    """A token of the pods' service account, for a system that trusts the cluster's."""

    token: FilePath
    """Path of the file below the mount."""
    audience: Annotated[str, Field(min_length=1, max_length=1024)]
    """Who accepts it, such as `sts.amazonaws.com`."""
    expires: Duration = Field(default_factory=lambda: Duration.parse("1h"))
    """When the node replaces it; at least 10m."""

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        if self.expires.seconds < 600:
            raise PlacedError("a token lives for 10 minutes at least; write 10m or more", "expires")
        return self


ProjectedSource = Annotated[ProjectedConfigMap | ProjectedSecret | ProjectedFields | ProjectedToken, ByKeys()]


class ProjectedMount(Model):
    """Files from several places in one folder, which a pod can only read."""

    projected: Annotated[ListOf[ProjectedSource], Field(min_length=1)]
    """Where they come from."""
    mode: FileMode | None = None
    """Permissions of the files, such as "0400" for a private key; default: "0644"."""

    @model_validator(mode="after")
    def _files_differ(self) -> Self:
        paths = [path for source in self.projected for path in _files_of(source)]
        if twice := next((path for path in paths if paths.count(path) > 1), None):
            raise ValueError(f"two sources write the file {twice}; give one of them another path")
        return self


def _files_of(source: ProjectedSource) -> list[str]:
    """Paths that a source states."""
    match source:
        case ProjectedFields():
            return list(source.fields)
        case ProjectedToken():
            return [source.token]
        case _:
            return list(source.items.values())


class KubernetesMount(Model):
    """A volume as Kubernetes writes it, for what no other kind of mount says."""

    volume: dict[str, JsonValue]
    """The source of a Volume, such as `csi: {driver: …, fsType: ext4}`: without its name, and no claim."""
    read_only: bool = False
    """Whether the mount is read-only."""
    sub_path: RelativePath | None = None
    """A folder inside the volume."""


OfItsOwn = (
    ScratchMount | EphemeralMount | ConfigMapMount | SecretMount | HostPathMount | NfsMount | CsiMount | ImageMount
    | ProjectedMount | KubernetesMount
)  # fmt: skip
"""A mount whose volume nothing else mounts: every kind but a claim, which a run states itself."""

OwnMount = Annotated[OfItsOwn, ByKeys()]
Mount = Annotated[ClaimMount | OfItsOwn, ByKeys()]

T = TypeVar("T")


def _sorted_by_path(entries: dict[str, T]) -> dict[str, T]:
    return dict(sorted(entries.items()))


ByPath = Annotated[dict[MountPath, T], AfterValidator(_sorted_by_path)]
"""A mapping whose order means nothing and would otherwise show in the pods, and so move the run's identity."""


class SecretReference(Model):
    """A key of a Secret; only the reference is rendered, so a rotation changes nothing."""

    secret: DnsSubdomain
    """Name of the Secret."""
    key: ConfigKey
    """Key in it."""


class ConfigMapReference(Model):
    """A key of a ConfigMap; only the reference is rendered."""

    config_map: DnsSubdomain
    """Name of the ConfigMap."""
    key: ConfigKey
    """Key in it."""


class FieldReference(Model):
    """A field of the pod, which the node fills in."""

    field: FieldPath
    """Such as `spec.nodeName`, `status.podIP` or `metadata.labels['KEY']`."""


def _can_be_set(value: str) -> str:
    if "\0" in value:
        raise ValueError("it holds a NUL character, and no variable can; remove it")
    return value


_Text = Annotated[str, Field(max_length=131_072), AfterValidator(_can_be_set)]

EnvValue = Annotated[_Text | SecretReference | ConfigMapReference | FieldReference, ByKeys(other="text")]


class WholeSecret(Model):
    """Every key of a Secret as a variable."""

    secret: DnsSubdomain
    """Name of the Secret."""
    prefix: EnvName | None = None
    """Put before each key."""


class WholeConfigMap(Model):
    """Every key of a ConfigMap as a variable."""

    config_map: DnsSubdomain
    """Name of the ConfigMap."""
    prefix: EnvName | None = None
    """Put before each key."""


EnvSource = Annotated[WholeSecret | WholeConfigMap, ByKeys()]
