"""Data that is fetched once, before the first pod starts."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from trainwright.model import ByKeys, DnsSubdomain, Model
from trainwright.run.surroundings import SecretReference
from trainwright.units import Bytes, Cpu
from trainwright_trainer.contract.base import PlacedError

Source = Annotated[
    str, Field(pattern=r"^(s3|gs)://[a-z0-9][-a-z0-9._]{1,61}[a-z0-9](/[^/\x00-\x1f\x7f]+)*$", max_length=1024,
               examples=["s3://bucket/data"])
]
Endpoint = Annotated[
    str, Field(pattern=r"^https?://[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?(/[-A-Za-z0-9._~/]*)?$", max_length=512)
]
Region = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class AccessKeys(Model):
    """Credentials for an S3 store."""

    access_key: SecretReference
    """The access key ID."""
    secret_key: SecretReference
    """The secret access key."""


class AccountKey(Model):
    """Credentials for Google Cloud Storage."""

    account_key: SecretReference
    """The JSON key file of a service account."""


Credentials = Annotated[AccessKeys | AccountKey, ByKeys()]


class Preparation(Model):
    """A data set in an object store, and the tool that copies it into a claim."""

    source: Source
    """`s3://bucket/prefix` or `gs://bucket/prefix`: everything below it."""
    image: Annotated[str, Field(min_length=1, max_length=1024)]
    """Image with rclone and a shell, pinned by digest."""
    credentials: Credentials | None = None
    """Credentials for the source. Without these and without `service_account`, the source must be public."""
    service_account: DnsSubdomain | None = None
    """Service account that the cloud knows (workload identity), instead of credentials."""
    endpoint: Endpoint | None = None
    """Endpoint of an S3 store other than AWS."""
    region: Region | None = None
    """Region of an S3 store."""
    revision: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Raise it to fetch the source again, next to the earlier copy."""
    cpu: Cpu = Field(default_factory=lambda: Cpu.parse(4))
    """Of the pod that copies; requests equal limits."""
    memory: Bytes = Field(default_factory=lambda: Bytes.parse("4Gi"))
    """Of the pod that copies; requests equal limits."""

    @property
    def store(self) -> str:
        """`s3` or `gs`."""
        return self.source.partition("://")[0]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if any(part in (".", "..") for part in self.source.split("/")):
            raise PlacedError("source must not have '.' or '..' in it; write the prefix as the store has it", "source")
        if self.credentials and self.service_account:
            message = "credentials and service_account are both given; keep the key, or the account that the cloud knows"
            raise PlacedError(message, "credentials")
        wanted = AccessKeys if self.store == "s3" else AccountKey
        if self.credentials and not isinstance(self.credentials, wanted):
            raise PlacedError(f"credentials of {self.store}:// are {' and '.join(wanted.model_fields)}", "credentials")
        foreign = [name for name in ("endpoint", "region") if getattr(self, name)]
        if self.store == "gs" and foreign:
            raise PlacedError(f"gs:// has no {' and no '.join(foreign)}; remove it", foreign[0])
        return self
