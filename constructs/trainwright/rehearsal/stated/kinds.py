"""The part of the Kubernetes API that a rehearsal plays itself: Service, ConfigMap, Secret, and what pods are made of.

Fields that a rehearsal does not read are ignored; fields that it reads are checked as the API server would check them.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from trainwright.manifest.kinds import GroupKind
from trainwright_trainer.contract.layout import SPEC_ENV

Number = Annotated[int, Field(strict=True, ge=0)]
PortNumber = Annotated[int, Field(strict=True, ge=1, le=65535)]
PortReference = PortNumber | str
"""A number, or the name of a container port."""


def _empty_if_null(value: Any) -> Any:
    return {} if value is None else value


class Kind(BaseModel):
    """Frozen, camelCase as in YAML, and open to the many fields that do not matter here."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class Metadata(Kind):
    name: str = ""
    namespace: str = "default"
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Object(Kind):
    """A kind of which manifests are read."""

    key: ClassVar[GroupKind]

    metadata: Metadata


class KeySelector(Kind):
    """``configMapKeyRef`` or ``secretKeyRef``."""

    name: str
    key: str
    optional: bool = False


class FieldSelector(Kind):
    field_path: str


class EnvSource(Kind):
    field_ref: FieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    resource_field_ref: Mapping[str, Any] | None = None


class EnvVar(Kind):
    name: str
    value: str = ""
    value_from: EnvSource | None = None


class Source(Kind):
    """A whole ConfigMap or Secret in ``envFrom``."""

    name: str
    optional: bool = False


class EnvFrom(Kind):
    prefix: str = ""
    config_map_ref: Source | None = None
    secret_ref: Source | None = None


class ContainerPort(Kind):
    container_port: PortNumber
    name: str = ""


class HttpHeader(Kind):
    name: str
    value: str


class HttpGet(Kind):
    port: PortReference
    path: str = "/"
    host: str = ""
    scheme: Literal["HTTP", "HTTPS"] = "HTTP"
    http_headers: Sequence[HttpHeader] = ()


class TcpSocket(Kind):
    port: PortReference
    host: str = ""


class Exec(Kind):
    command: Sequence[str] = ()


class Probe(Kind):
    """Defaults are the API server's."""

    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    exec: Exec | None = None
    grpc: Mapping[str, Any] | None = None
    initial_delay_seconds: Number = 0
    period_seconds: Annotated[int, Field(ge=1)] = 10
    timeout_seconds: Annotated[int, Field(ge=1)] = 1
    failure_threshold: Annotated[int, Field(ge=1)] = 3
    success_threshold: Annotated[int, Field(ge=1)] = 1


class VolumeMount(Kind):
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class Container(Kind):
    name: str
    image: str = ""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    working_dir: str = ""
    env: Sequence[EnvVar] = ()
    env_from: Sequence[EnvFrom] = ()
    ports: Sequence[ContainerPort] = ()
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Mapping[str, Any] | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: Literal["File", "FallbackToLogsOnError"] = "File"
    volume_mounts: Sequence[VolumeMount] = ()
    resources: Mapping[str, Any] = {}
    security_context: Mapping[str, Any] = {}
    restart_policy: str | None = None
    """``Always`` makes an init container a sidecar."""

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"

    @property
    def probes(self) -> Iterator[tuple[str, Probe]]:
        """Field name and probe, in the order in which the kubelet acts on them."""
        for field, probe in (
            ("startupProbe", self.startup_probe),
            ("readinessProbe", self.readiness_probe),
            ("livenessProbe", self.liveness_probe),
        ):
            if probe is not None:
                yield field, probe

    def port_number(self, port: PortReference) -> int | None:
        """Number of a port; None for a name that the container does not have."""
        if isinstance(port, int):
            return port
        return next((one.container_port for one in self.ports if one.name == port), None)


class KeyToPath(Kind):
    key: str
    path: str
    mode: int | None = None


class Filled(Kind):
    """A volume that the node fills with files."""

    default_mode: int | None = None


class ConfigMapVolume(Filled):
    name: str = ""
    items: Sequence[KeyToPath] | None = None
    optional: bool = False


class SecretVolume(ConfigMapVolume):
    """Of a volume; in a projected one the name is called as that of a ConfigMap."""

    name: str = Field(default="", validation_alias=AliasChoices("secretName", "name"))


class ClaimVolume(Kind):
    claim_name: str
    read_only: bool = False


class DownwardItem(Kind):
    path: str
    mode: int | None = None
    field_ref: FieldSelector | None = None


class DownwardVolume(Filled):
    items: Sequence[DownwardItem] = ()


class TokenPath(Kind):
    path: str


class Projection(Kind):
    config_map: ConfigMapVolume | None = None
    downward_api: DownwardVolume | None = Field(default=None, alias="downwardAPI")
    secret: SecretVolume | None = None
    service_account_token: TokenPath | None = None


class ProjectedVolume(Filled):
    sources: Sequence[Projection] = ()


class Volume(BaseModel):
    """One source by its key; a source that is none of a rehearsal's own is kept by name: a folder stands for it."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True)

    name: str
    empty_dir: Annotated[Mapping[str, Any] | None, BeforeValidator(_empty_if_null)] = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    downward_api: DownwardVolume | None = Field(default=None, alias="downwardAPI")
    projected: ProjectedVolume | None = None

    @property
    def filled(self) -> Filled | None:
        """What says of the files that a node writes there; None for another volume."""
        return self.config_map or self.secret or self.downward_api or self.projected

    @property
    def is_read_only(self) -> bool:
        """Whatever its mounts say."""
        claim = self.persistent_volume_claim
        return claim.read_only if claim else self.filled is not None

    @property
    def other_source(self) -> str | None:
        """Key of a source that is none of the above, such as hostPath, nfs, csi, ephemeral or image."""
        return next(iter(self.model_extra or {}), None)


class DnsConfig(Kind):
    searches: Sequence[str] = ()
    nameservers: Sequence[str] = ()


class PodSpec(Kind):
    containers: Annotated[Sequence[Container], Field(min_length=1)]
    init_containers: Sequence[Container] = ()
    volumes: Sequence[Volume] = ()
    restart_policy: str = "Always"
    hostname: str = ""
    subdomain: str = ""
    dns_policy: str = "ClusterFirst"
    dns_config: DnsConfig = DnsConfig()
    security_context: Mapping[str, Any] = {}
    service_account_name: str = "default"
    priority_class_name: str = ""
    image_pull_secrets: Sequence[Mapping[str, Any]] = ()
    termination_grace_period_seconds: Number = 30
    host_network: bool = False
    host_ipc: bool = Field(default=False, alias="hostIPC")
    scheduling_gates: Sequence[Mapping[str, Any]] = ()
    runtime_class_name: str = ""
    resource_claims: Sequence[Mapping[str, Any]] = ()

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers first, in the order in which the kubelet starts them."""
        return (*self.init_containers, *self.containers)

    @property
    def volumes_by_name(self) -> dict[str, Volume]:
        return {volume.name: volume for volume in self.volumes}

    def mounted_claims(self, container: Container) -> Iterator[tuple[VolumeMount, ClaimVolume]]:
        """The container's mounts of claims, each with its claim."""
        volumes = self.volumes_by_name
        for mount in container.volume_mounts:
            volume = volumes.get(mount.name)
            if volume is not None and volume.persistent_volume_claim is not None:
                yield mount, volume.persistent_volume_claim

    @property
    def starts_ray(self) -> bool:
        return any("ray start" in word for one in self.containers for word in (*one.command, *one.args))

    @property
    def main(self) -> Container:
        """The container that reads the run's specification, else the first."""
        reads = (container for container in self.containers if any(variable.name == SPEC_ENV for variable in container.env))
        return next(reads, self.containers[0])


class ServicePort(Kind):
    port: PortNumber
    name: str = ""
    target_port: PortReference | None = None


class ServiceSpec(Kind):
    type: str = "ClusterIP"
    cluster_ip: str = Field(default="", alias="clusterIP")
    selector: Mapping[str, str] = {}
    publish_not_ready_addresses: bool = False
    ports: Sequence[ServicePort] = ()


class Service(Object):
    key = GroupKind("", "Service")

    spec: ServiceSpec


class ConfigMap(Object):
    key = GroupKind("", "ConfigMap")

    data: Mapping[str, str] = {}


def _decoded(text: str) -> str:
    """Line ends may be anywhere in it, as for Go's decoder (encoding/base64)."""
    try:
        return b64decode(re.sub(r"[\r\n]", "", text), validate=True).decode(errors="replace")
    except ValueError:
        raise PydanticCustomError("base64", "it is not base64: plain text goes under stringData") from None


class Secret(Object):
    key = GroupKind("", "Secret")

    data: Mapping[str, Annotated[str, AfterValidator(_decoded)]] = {}
    """Key -> text, decoded."""
    string_data: Mapping[str, str] = {}

    @property
    def values(self) -> dict[str, str]:
        """Key -> text."""
        return {**self.data, **self.string_data}
