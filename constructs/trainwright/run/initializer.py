"""What an installed runtime of Kubeflow Trainer fetches for one TrainJob."""

from typing import Annotated

from pydantic import Field

from trainwright.model import DnsSubdomain, EnvName, Model
from trainwright.run.surroundings import EnvValue


class Initializer(Model):
    """What the initializer of a runtime is told by this run, in place of what the runtime says."""

    storage_uri: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*://.+$", max_length=2048)] | None = None
    """Where the data set or model is, as the runtime's initializer reads it: its own take `hf://OWNER/NAME`, `s3://` and
    `cache://`. Default: what the runtime says.
    """
    secret: DnsSubdomain | None = None
    """Secret of the namespace whose keys the initializer gets as variables, such as `ACCESS_TOKEN`."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Variables of the initializer."""


class Initializers(Model):
    """The initializers of the run's `runtime`, which end before its pods start."""

    dataset: Initializer | None = None
    """Of the Job `dataset-initializer`."""
    model: Initializer | None = None
    """Of the Job `model-initializer`."""

    @property
    def stated(self) -> dict[str, Initializer]:
        """By the names of Trainer's own field."""
        return {part: one for part, one in (("dataset", self.dataset), ("model", self.model)) if one}
