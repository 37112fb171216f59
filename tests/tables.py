"""Tables of the docs in Markdown, read off what the compiler knows: models, contract, targets and topologies."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from trainwright.cluster import Cluster
from trainwright.cluster.addons import Releases
from trainwright.cluster.model import Fabric, NodePool
from trainwright.findings.codes import CODES
from trainwright.handshake import Binding, Gang, Refusal
from trainwright.manifest.gang import SCHEDULERS
from trainwright.operators import TARGETS
from trainwright.operators.base import Target
from trainwright.operators.kueue import releases as kueue
from trainwright.plan.estimate.scaling import GPUS, scaling
from trainwright.plan.guarantees import pair_guarantees
from trainwright.plan.incident import delay, delayed, takes_others
from trainwright.plan.model import BatchPlan
from trainwright.reading.words import KEYS, TYPES, VALUES
from trainwright.report.rows import share
from trainwright.report.schema import described_schema
from trainwright.run import TrainerWorkload
from trainwright.topology import Topology
from trainwright_trainer.contract.engine import CAPABILITIES, ENGINE_RENDEZVOUS, SETTINGS, EngineName, reads
from trainwright_trainer.contract.model import Llama
from trainwright_trainer.contract.sharding import Sharding


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """With its last line ended."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


Schema = Mapping[str, Any]


def reference(model: type[BaseModel], title: str, elsewhere: Mapping[str, str]) -> str:
    """A section for the model and for each part of it that has keys of its own; ``elsewhere`` maps parts to other pages."""
    schema = described_schema(model)
    parts = {title: schema, **{name: part for name, part in sorted(schema.get("$defs", {}).items()) if name not in elsewhere}}
    return "\n\n".join(_section(name, part, elsewhere) for name, part in parts.items() if "properties" in part) + "\n"


def operator_table() -> str:
    """What the compiler knows of each operator and scheduler: a row each."""
    rows = [
        (
            target.title,
            ", and ".join(operator.name for operator in operators) or "none",
            ", and ".join(_releases(operator.releases) for operator in operators),
            ".".join(map(str, target.minimum_kubernetes)),
        )
        for target in TARGETS.values()
        for operators in [[target.operator, *target.depends_on] if target.operator else []]
    ]
    return table(("target", "operator", "releases known", "Kubernetes, at least"), rows)


def scheduler_table() -> str:
    """Schedulers and queues by the releases that are known."""
    rows = [("Kueue", _releases(kueue.RELEASES)), *((name, _releases(one.releases)) for name, one in SCHEDULERS.items())]
    return table(("scheduler", "releases known"), rows)


def feature_table() -> str:
    """What not every known release of an operator can do, and who says so."""
    known = {one.name: one for target in TARGETS.values() for one in (target.operator, *target.depends_on) if one}
    features = [(name, feature) for name, one in known.items() for feature in (one.managed_by, *one.features) if feature]
    rows = [*features, *(("Kueue", feature) for feature in kueue.FEATURES)]
    return table(
        ("operator", "from", "what", "source"), [(name, _number(it.since), it.what, f"`{it.source}`") for name, it in rows]
    )


def _releases(releases: Releases) -> str:
    return f"{_number(releases.first)} to {_number(releases.last)}"


def _number(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


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


SHORT = {
    "exit codes": "codes",
    "SIGTERM save": "save",
    "restart of all ranks together": "restart",
    "recovery in place": "place",
    "exact resume": "resume",
    "resume at another size": "reshard",
}
"""Guarantees of our trainer in the words of a narrow table."""


def target_sections(targets: Sequence[Target]) -> str:
    """What each target says of itself, under a heading of its own."""
    return "\n".join(f"## {target.title}\n\n{beside(target, 'md').read_text(encoding='utf-8')}" for target in targets)


def beside(target: Target, ending: str) -> Path:
    """The file about a target in its operator's folder."""
    return Path(inspect.getfile(type(target))).with_name(f"{target.name}.{ending}")


def matrix_table(topologies: Mapping[str, Topology], targets: Sequence[Target], cluster: Cluster) -> str:
    """A Markdown table: a row for each topology, a column for each target, the guarantees or a dash in each cell."""
    head = ["topology", *(target.title for target in targets)]
    rows = [[name, *(_cell(topology, target, cluster) for target in targets)] for name, topology in topologies.items()]
    return table(head, rows)


def refusal_list(topologies: Mapping[str, Topology], targets: Sequence[Target], cluster: Cluster) -> str:
    """A Markdown table: why each pair without a binding has none, a reason once for all topologies that share it."""
    return table(("target", "refuses", "because"), list(_refusals(topologies, targets, cluster)))


def gang_table(topologies: Mapping[str, Topology], targets: Sequence[Target], cluster: Cluster) -> str:
    """A Markdown table: who makes the group of pods that start together."""
    makers: dict[Gang, list[str]] = {}
    for target in targets:
        answers = [target.bind(topology.needs(), cluster) for topology in topologies.values()]
        for maker in dict.fromkeys(answer.gang for answer in answers if isinstance(answer, Binding)):
            makers.setdefault(maker, []).append(target.title)
    return table(("target", "who makes the group"), [(", ".join(titles), maker.value) for maker, titles in makers.items()])


def recovery_table(topologies: Mapping[str, Topology], targets: Sequence[Target], cluster: Cluster) -> str:
    """A Markdown table: where pods stay when one is lost, and why they cannot elsewhere, of what our supervisor runs."""
    rows = []
    for target in targets:
        found: dict[str, list[str]] = {}
        for name, topology in topologies.items():
            needs = topology.needs()
            answer = target.bind(needs, cluster)
            if isinstance(answer, Binding) and needs.talk and answer.guarantees & topology.guarantees:
                found.setdefault(takes_others(needs, answer), []).append(name)
        rows += [(target.title, "; ".join(names), reason or "**in place**") for reason, names in found.items()]
    return table(("target", "topology", "in place, or why not"), rows)


def incident_table(topologies: Mapping[str, Topology], targets: Sequence[Target], cluster: Cluster) -> str:
    """A Markdown table: where each loss of a pod makes the next one later, and by how much."""
    shown, rows = (1, 2, 3, 7), []
    for target in targets:
        found = [(needs, target.bind(needs, cluster)) for needs in (topology.needs() for topology in topologies.values())]
        pairs = [(needs.talk, answer) for needs, answer in found if isinstance(answer, Binding)]
        works = {
            "under the supervisor": any(talk and delayed(binding, True) for talk, binding in pairs),
            "a command": any(talk and delayed(binding, False) for talk, binding in pairs),
            "independent pods": any(not talk and delayed(binding, False) for talk, binding in pairs),
        }
        if said := ", ".join(work for work, waits in works.items() if waits):
            rows.append((target.title, said, *(f"{delay(loss)} s" for loss in shown)))
    return table(("target", "where", "1st loss of an index", "2nd", "3rd", "7th and later"), rows)


def _cell(topology: Topology, target: Target, cluster: Cluster) -> str:
    answer = target.bind(topology.needs(), cluster)
    if isinstance(answer, Refusal):
        return "–"
    kept = {guarantee.value for guarantee in pair_guarantees(topology, topology.needs(), answer)}
    lacking = [short for guarantee, short in SHORT.items() if guarantee not in kept]
    if len(lacking) < 2:
        return " but ".join(["all", *lacking])
    return ", ".join(short for guarantee, short in SHORT.items() if guarantee in kept) or "runs"


def _refusals(
    topologies: Mapping[str, Topology], targets: Sequence[Target], cluster: Cluster
) -> Iterator[tuple[str, str, str]]:
    for target in targets:
        reasons: dict[str, list[str]] = {}
        for name, topology in topologies.items():
            needs = topology.needs()
            answer = target.bind(needs, cluster)
            if isinstance(answer, Refusal):
                reason = answer.reason.replace(f"a {needs.rendezvous.value} rendezvous", "their rendezvous")
                reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield target.title, "; ".join(names), reason


_PROMISES = {
    "reshards": "loads a checkpoint at another number of ranks",
    "sigterm_save": "saves when it is told to end",
    "saves_in_background": "continues training while a checkpoint is written",
    "skips_without_sync": "sends nothing before a step's last micro batch",
    "every_rank_writes": "distributes a checkpoint over all ranks",
}


def word_table(title: str) -> str:
    """What people call things elsewhere, for runs or for profiles: keys first, then values."""
    rows = []
    for row in (*KEYS[title], *VALUES[title]):
        words = ", ".join(word if word in TYPES.values() else f"`{word}`" for word in row.words.split(", "))
        place = {"": "anywhere", "/": "the top level"}.get(row.at, f"`{row.at}`{':' if row in VALUES[title] else ''}")
        write = re.sub("<([^>]*)>", r"\1", row.write)
        rows.append((place, words, row.here, (f"in `{row.to}`: " if row.to and row.to != ".." else "") + write or "nothing"))
    return table(("where", "word", "what it is here", "what to write"), rows)


FINDINGS = {
    "TW1": "Reading files",
    "TW2": "Training",
    "TW3": "Cluster",
    "TW4": "Topology and target",
    "TW43": "Scheduling",
    "TW45": "Starting, and starting again",
    "TW5": "The records and dist/",
    "TW6": "Overrides and waivers",
    "TW7": "Validation",
}
"""How the code of the first finding of a part begins -> its heading."""


def finding_tables() -> str:
    """The index of the pages of findings, in its parts."""
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for code, entry in CODES.items():
        part = max(start for start in FINDINGS if start <= code)
        rows.setdefault(part, []).append((f"[{code}]({code}.md)", entry.weight, entry.title))
    parts = (f"## {FINDINGS[part]}\n\n{table(('code', 'severity', 'title'), found)}" for part, found in rows.items())
    return "\n\n".join(parts)


def engine_table() -> str:
    """Capabilities, settings and rendezvous of every engine, in Markdown."""
    engines: tuple[EngineName, ...] = get_args(EngineName)
    rows = [[text, *(_word(getattr(CAPABILITIES[engine], name)) for engine in engines)] for name, text in _PROMISES.items()]
    rows += [[f"supports `{setting}`", *(_word(reads(engine, setting)) for engine in engines)] for setting in SETTINGS]
    rows.append(["ranks meet by", *(", ".join(ENGINE_RENDEZVOUS[engine]) for engine in engines)])
    return table(["", *(f"`{engine}`" for engine in engines)], rows)


def _word(value: bool) -> str:
    return "yes" if value else "no"


MODELS = {
    "1 B": Llama(architecture="llama", vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                 num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192, tie_word_embeddings=True),
    "8 B": Llama(architecture="llama", vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                 num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192),
    "70 B": Llama(architecture="llama", vocab_size=128256, hidden_size=8192, intermediate_size=28672, num_hidden_layers=80,
                  num_attention_heads=64, num_key_value_heads=8, max_position_embeddings=8192),
}
SHARDINGS = {
    "DDP": Sharding(),
    "FSDP2": Sharding(stage=3, engine="fsdp2"),
    "FSDP2, groups of 8": Sharding(stage=3, engine="fsdp2", shard_degree=8),
    "ZeRO-3 (DeepSpeed)": Sharding(stage=3, engine="deepspeed"),
}
FABRICS = {
    "8 x 400 Gb/s": Fabric(kind="infiniband", links=8, gigabits_per_link=400),
    "1 x 100 Gb/s": Fabric(kind="tcp", links=1, gigabits_per_link=100),
}
MICRO, ACCUMULATION, TOKENS = 4, 1, 2048


def scaling_table() -> str:
    """Efficiency on nodes of eight H100 at 8 to 4,096 GPUs, in Markdown."""
    batch = BatchPlan(MICRO, ACCUMULATION, 8, MICRO * ACCUMULATION * 8)
    rows = []
    for (size, model), (name, sharding), (links, fabric) in product(MODELS.items(), SHARDINGS.items(), FABRICS.items()):
        if size == "70 B" and name in ("DDP", "FSDP2, groups of 8"):
            continue  # fits no GPU
        found = scaling(_work(model), batch, sharding, _pool(fabric))
        assert found is not None
        rows.append([size, name, links, *map(share, found.efficiencies)])
    return table(["Llama", "topology", "network of a node", *(f"{gpus:,} GPUs" for gpus in GPUS)], rows)


def _work(model: Llama) -> TrainerWorkload:
    return TrainerWorkload.model_validate({
        "kind": "trainer", "task": "causal-lm", "model": model.model_dump(exclude_none=True), "precision": "bf16",
        "data": {"source": "tokens", "path": "/data/tokens", "sequence_length": TOKENS, "dtype": "uint32"}, "epochs": 1,
    })


def _pool(fabric: Fabric) -> NodePool:
    gpu = {"model": "H100", "memory": "80Gi", "per_node": 8}
    return NodePool.model_validate({"gpu": gpu, "fabric": fabric.model_dump(), "cpus": 180, "memory": "1800Gi"})
