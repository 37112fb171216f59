"""What a pod finds around its program: volumes, and variables that come from elsewhere."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Tag

from trainwright.model import AbsolutePath, DnsSubdomain, EnvName, Model, by_keys
from trainwright.units import Bytes

ConfigKey = Annotated[str, Field(pattern=r"^([-_a-zA-Z0-9]|\.[-_a-zA-Z0-9])[-._a-zA-Z0-9]*$", max_length=253)]
"""A key of a Secret or ConfigMap."""


def _inside(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("it must stay inside the volume: remove '..'")
    return path


RelativePath = Annotated[str, Field(pattern=r"^[^/\x00][^\x00]*$", max_length=512), AfterValidator(_inside)]

FileMode = Annotated[str, Field(pattern=r"^0?[0-7]{3}$")]
"""Permissions as `chmod` reads them, in quotes: YAML would take 0400 for four hundred."""


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
    items: dict[ConfigKey, RelativePath] = Field(default_factory=dict)
    """Key -> path below the mount; default: every key under its own name."""
    mode: FileMode | None = None
    """Permissions of the files, such as "0555" for programs; default: "0644"."""


class SecretMount(Model):
    """The keys of a Secret as files, which a pod can only read."""

    secret: DnsSubdomain
    """A Secret of the namespace."""
    items: dict[ConfigKey, RelativePath] = Field(default_factory=dict)
    """Key -> path below the mount; default: every key under its own name."""
    mode: FileMode | None = None
    """Permissions of the files, such as "0400" for a private key; default: "0644"."""


class HostPathMount(Model):
    """A path of the node, in a namespace whose level allows it."""

    host_path: AbsolutePath
    """Path on the node."""
    type: Literal["Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"] | None = None
    """What must be there before the pod starts; default: nothing is checked."""
    read_only: bool = False
    """Whether the mount is read-only."""


class NfsMount(Model):
    """An export of an NFS server, mounted by the node."""

    nfs: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9.:]*[A-Za-z0-9])?$", max_length=253)]
    """Name or address of the server."""
    path: AbsolutePath
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


_MOUNTS = (ClaimMount, ScratchMount, EphemeralMount, ConfigMapMount, SecretMount, HostPathMount, NfsMount, CsiMount)

Mount = Annotated[
    Annotated[ClaimMount, Tag("ClaimMount")]
    | Annotated[ScratchMount, Tag("ScratchMount")]
    | Annotated[EphemeralMount, Tag("EphemeralMount")]
    | Annotated[ConfigMapMount, Tag("ConfigMapMount")]
    | Annotated[SecretMount, Tag("SecretMount")]
    | Annotated[HostPathMount, Tag("HostPathMount")]
    | Annotated[NfsMount, Tag("NfsMount")]
    | Annotated[CsiMount, Tag("CsiMount")],
    by_keys(*_MOUNTS),
]


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


_FIELDS = r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^'\x00]+'\]|spec\.(nodeName|serviceAccountName)" \
    r"|status\.(hostIPs?|podIPs?)"


class FieldReference(Model):
    """A field of the pod, which the node fills in."""

    field: Annotated[str, Field(pattern=f"^({_FIELDS})$", max_length=512)]
    """Such as `spec.nodeName`, `status.podIP` or `metadata.labels['KEY']`."""


def _can_be_set(value: str) -> str:
    if "\0" in value:
        raise ValueError("it holds a NUL character, and no variable can: remove it")
    return value


EnvValue = Annotated[
    Annotated[str, Field(max_length=131_072), AfterValidator(_can_be_set), Tag("text")]
    | Annotated[SecretReference, Tag("SecretReference")]
    | Annotated[ConfigMapReference, Tag("ConfigMapReference")]
    | Annotated[FieldReference, Tag("FieldReference")],
    by_keys(SecretReference, ConfigMapReference, FieldReference, other="text"),
]


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


EnvSource = Annotated[
    Annotated[WholeSecret, Tag("WholeSecret")] | Annotated[WholeConfigMap, Tag("WholeConfigMap")],
    by_keys(WholeSecret, WholeConfigMap),
]
