"""The keys of a file, as tables of Markdown: read off the models, with the text under each field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from trainwright.report.schema import described_schema
from trainwright.report.table import table
from trainwright.rules.operators import GANG, KUEUE
from trainwright.target import TARGETS
from trainwright.target.base import Releases

Schema = Mapping[str, Any]


def reference(model: type[BaseModel], title: str, elsewhere: Mapping[str, str]) -> str:
    """A section for the model and for each part of it that has keys of its own; ``elsewhere`` maps parts to other pages."""
    schema = described_schema(model)
    parts = {title: schema, **{name: part for name, part in sorted(schema["$defs"].items()) if name not in elsewhere}}
    return "\n\n".join(_section(name, part, elsewhere) for name, part in parts.items() if "properties" in part) + "\n"


def operator_table() -> str:
    """What the compiler knows of each operator and scheduler: a row each."""
    rows = [
        (
            target.title,
            ", and ".join((target.operator or "none", *target.relies_on)),
            ", and ".join(map(_releases, (target.releases, *target.relies_on.values()))),
            ".".join(map(str, target.minimum_kubernetes)),
        )
        for target in TARGETS.values()
    ]
    return table(("target", "operator", "releases known", "Kubernetes, at least"), rows)


def scheduler_table() -> str:
    """Schedulers and queues by the releases that are known."""
    rows = [("Kueue", _releases(KUEUE)), *((name, _releases(releases)) for name, releases in GANG.items())]
    return table(("scheduler", "releases known"), rows)


def _releases(releases: Releases | None) -> str:
    if releases is None:
        return ""
    return f"{'.'.join(map(str, releases.first))} to {'.'.join(map(str, releases.last))}"


def _section(name: str, part: Schema, elsewhere: Mapping[str, str]) -> str:
    required = part.get("required", [])
    rows = [
        (f"`{key}`{' (required)' if key in required else ''}", _default(field), _text(field, elsewhere))
        for key, field in part["properties"].items()
    ]
    about = _prose(part.get("description", "").split("\n\n")[0])
    keys = table(("key", "default", "what"), rows).rstrip()
    return "\n\n".join(paragraph for paragraph in (f"## {name}", about, keys) if paragraph)


def _default(field: Schema) -> str:
    value = field.get("default")
    return "" if value in (None, [], "") or "const" in field else f"`{json.dumps(value).strip(chr(34))}`"


def _text(field: Schema, elsewhere: Mapping[str, str]) -> str:
    links = " or ".join(f"[{name}]({elsewhere.get(name, '')}#{name.lower()})" for name in dict.fromkeys(_names(field)))
    parts = (_tag(field) + _prose(field.get("description", "")).rstrip("."), _choices(field), links)
    return ". ".join(part for part in parts if part)


def _tag(field: Schema) -> str:
    if "const" not in field:
        return ""
    return f"`{field['const']}`" + (": " if field.get("description") else "")


def _choices(field: Schema) -> str:
    """Values of a short list, where the text does not go through them itself."""
    values: list[Any] = next((branch["enum"] for branch in (field, *field.get("anyOf", ())) if "enum" in branch), [])
    untold = [value for value in values if f"`{value}`" not in field.get("description", "")]
    return f"One of {', '.join(f'`{value}`' for value in values)}" if untold else ""


def _names(schema: Any) -> Iterator[str]:
    """Parts that a field refers to."""
    return (name for name in re.findall(r"#/\$defs/(\w+)", json.dumps(schema)) if name != "JsonValue")


def _prose(text: str) -> str:
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|")
