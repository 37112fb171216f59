"""Data that is fetched once, before the first pod starts."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from trainwright.model import ByKeys, DnsSubdomain, Model
from trainwright.run.surroundings import SecretReference
from trainwright.units import Bytes, Cpu
from trainwright_trainer.contract.base import ListOf, PlacedError
from trainwright_trainer.contract.hub import ADDRESS, Form, HubRepository

Source = Annotated[
    str, Field(pattern=rf"^((s3|gs)://[a-z0-9][-a-z0-9._]{{1,61}}[a-z0-9](/[^/\x00-\x1f\x7f]+)*|{ADDRESS}(@[^@\s]+)?)$",
               max_length=1024, examples=["s3://bucket/data"])
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


class HubToken(Model):
    """Credentials for the Hugging Face Hub."""

    token: SecretReference
    """An access token that may read the repository."""


Credentials = Annotated[AccessKeys | AccountKey | HubToken, ByKeys()]
_CREDENTIALS: Mapping[str, type[AccessKeys | AccountKey | HubToken]] = {"s3": AccessKeys, "gs": AccountKey, "hf": HubToken}
Pattern = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
_ONLY = {
    "service_account": ("s3", "gs"), "endpoint": ("s3", "hf"), "region": ("s3",), "revision": ("s3", "gs"),
    **dict.fromkeys(("include", "exclude", "form", "subset"), ("hf",)),
}  # fmt: skip
"""Fields that not every kind of source has."""


class Preparation(Model):
    """Data in an object store, or a data set or model of the Hugging Face Hub, and the tool that copies it into a claim."""

    source: Source
    """`s3://bucket/prefix` or `gs://bucket/prefix`: everything below it. `hf://datasets/OWNER/NAME@COMMIT`, or
    `hf://OWNER/NAME@COMMIT` for a model: the repository at that commit, with all of its 40 digits.
    """
    image: Annotated[str, Field(min_length=1, max_length=1024)]
    """Image with rclone and a shell, or for `hf://` with trainwright-trainer and huggingface_hub, pinned by digest."""
    credentials: Credentials | None = None
    """Credentials for the source. Without these and without `service_account`, the source must be public."""
    service_account: DnsSubdomain | None = None
    """Service account that the cloud knows (workload identity), instead of credentials."""
    endpoint: Endpoint | None = None
    """Endpoint of an S3 store other than AWS, or of another Hub."""
    region: Region | None = None
    """Region of an S3 store."""
    revision: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Raise it to fetch the source again, next to the earlier copy. What `hf://` names never changes."""
    include: ListOf[Pattern] = ()
    """Files of a repository to fetch, such as `*.safetensors`. Default: all of them."""
    exclude: ListOf[Pattern] = ()
    """Files of a repository to leave out, such as `original/*`."""
    form: Form = "files"
    """`files` leaves a repository as it is. `dataset` is what `load_dataset` makes of it, saved to disk, which data source
    `hf-dataset` reads.
    """
    subset: Annotated[str, Field(pattern=r"^[^/\x00-\x1f\x7f]+$", max_length=256)] | None = None
    """With `form: dataset`: which one of several, as `load_dataset` takes its name."""
    cpu: Cpu = Field(default_factory=lambda: Cpu.parse(4))
    """Of the pod that copies; requests equal limits."""
    memory: Bytes = Field(default_factory=lambda: Bytes.parse("4Gi"))
    """Of the pod that copies; requests equal limits."""

    @property
    def store(self) -> str:
        """`s3`, `gs` or `hf`."""
        return self.source.partition("://")[0]

    @property
    def content(self) -> dict[str, object]:
        """What decides the files: neither the tool nor the credentials."""
        chosen = self.model_dump(include={"include", "exclude", "form", "subset"}, exclude_defaults=True)
        return {**self.model_dump(include={"source", "endpoint", "revision"}), **chosen}

    @model_validator(mode="before")
    @classmethod
    def _the_commit_is_in_the_source(cls, stated: object) -> object:
        """People know it as ``revision=`` of huggingface_hub."""
        if isinstance(stated, Mapping) and isinstance(stated.get("revision"), str) and str(stated.get("source")).startswith("hf://"):
            message = "the revision of a repository is part of its source; end that with @ and the 40 digits of a commit"
            raise PlacedError(message, "revision")
        return stated

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if any(part in (".", "..") for part in self.source.split("/")):
            raise PlacedError("source must not have '.' or '..' in it; write the prefix as the store has it", "source")
        if self.credentials and self.service_account:
            message = "credentials and service_account are both given; keep the key, or the account that the cloud knows"
            raise PlacedError(message, "credentials")
        for field, stores in _ONLY.items():
            if field in self.model_fields_set and self.store not in stores:
                raise PlacedError(f"{self.store}:// has no {field}; remove it", field)
        if self.credentials and not isinstance(self.credentials, wanted := _CREDENTIALS[self.store]):
            raise PlacedError(f"credentials of {self.store}:// are {' and '.join(wanted.model_fields)}", "credentials")
        if self.store == "hf":
            self._is_one_commit()
        return self

    def _is_one_commit(self) -> None:
        repository = HubRepository.at(self.source)
        if repository is None:
            address = self.source.partition("@")[0]
            shown = f"`git ls-remote {address.replace('hf://', 'https://huggingface.co/')}`"
            message = f"{self.source} may change under runs that read it; write {address}@ and the 40 digits that {shown} prints"
            raise PlacedError(message, "source")
        if self.form == "dataset" and repository.kind != "dataset":
            raise PlacedError("a model is no dataset; a data set is hf://datasets/OWNER/NAME@COMMIT, or remove form", "form")
        if self.subset and self.form != "dataset":
            raise PlacedError("subset is one of a dataset; add form: dataset, or name the files under include", "subset")
