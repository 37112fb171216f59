"""The catalogue of findings: each code with its severity, and why it matters.

Each has a page in ``docs/findings/`` with a bad and a good example, and both are tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.findings import Finding, Severity, Where


@dataclass(frozen=True, slots=True)
class Code:
    id: str
    severity: Severity
    title: str
    why: str
    waivable: bool = False


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

_ROWS = (
    # Reading files
    Code("TW101", _E, "file cannot be read", "Only UTF-8 text files of at most 1 MiB are read."),
    Code("TW102", _E, "not YAML", "The file cannot be parsed, so nothing in it can be trusted."),
    Code("TW103", _E, "duplicate key", "YAML readers keep one of the two values and drop the other without a word."),
    Code("TW104", _E, "unsupported YAML",
         "Only one document of plain mappings, lists and scalars is read: that is what a reviewer can follow."),
    Code("TW105", _E, "unknown key", "A misspelt key would be ignored, and the run would not do what it says."),
    Code("TW106", _E, "missing key", "The compiler guesses nothing that decides what is trained or where."),
    Code("TW107", _E, "wrong value", "The value has the wrong type or lies outside what is possible."),
    Code("TW108", _E, "run module fails", "A run in Python is a module that exports RUN and imports nothing of cdk8s."),
    Code("TW109", _E, "name and file differ", "A run or cluster is found by its file name; two names for one thing get lost."),
    Code("TW110", _E, "unknown cluster", "A run is compiled for one cluster profile."),
    # Training
    Code("TW201", _E, "incomplete training",
         "Our trainer needs a batch and a learning rate; there is no default that fits a model it does not know."),
    Code("TW202", _E, "trainer version missing or unknown", "The version in the image decides which fields it can be given."),
    Code("TW203", _W, "linear scaling with Adam",
         "Adam normalises its step, so the linear rule (found for SGD) overshoots; the square root rule fits.", True),
    Code("TW204", _W, "scaled rate without warm-up", "Early steps at a rate scaled far up often diverge.", True),
    Code("TW205", _W, "batch statistics under accumulation",
         "Batch norm sees each micro batch alone, so accumulation changes the model.", True),
    Code("TW206", _E, "batch larger than the data", "One step would need more samples than there are."),
    Code("TW207", _I, "field without effect", "The program has arguments of its own: nothing reads this field.", True),
    Code("TW208", _E, "field newer than the image", "The trainer in the image would not do what the run asks."),
    Code("TW209", _W, "warm-up without an end", "The rate never reaches its peak, so the run trains at another rate than it says.", True),
    Code("TW220", _E, "out of memory", "Even the lower bound of the estimate does not fit."),
    Code("TW221", _W, "memory is tight", "The upper bound of the estimate does not fit; the run may end out of memory.", True),
    Code("TW230", _E, "no place for checkpoints", "Without a claim, a restart begins at step 0 and a finished model is lost."),
    Code("TW231", _E, "checkpoints on a volume that cannot keep them",
         "Scratch dies with the pod, and a read-only mount takes no files."),
    Code("TW233", _E, "mount in the way", "The mount hides, or lies in, a folder that the plan mounts."),
    Code("TW234", _E, "unknown claim", "A pod whose claim does not exist stays Pending for ever."),
    Code("TW235", _E, "access mode does not fit", "Pods on several nodes cannot all mount the volume, or cannot write to it."),
    Code("TW236", _W, "grace longer than the notice", "A spot node ends before the last save does.", True),
    # Cluster
    Code("TW301", _E, "unknown node pool", "The pods would match no node."),
    Code("TW302", _E, "no node has the GPUs", "The pods would stay Pending for ever."),
    Code("TW303", _E, "unknown namespace", "Objects in a namespace that does not exist cannot be applied."),
    Code("TW304", _E, "not an image reference", "The kubelet could not pull it."),
    Code("TW305", _W, "image by tag", "A tag can move: two pods of one run may train with different code.", True),
    Code("TW306", _E, "registry not allowed", "The platform team lists where images may come from."),
    Code("TW307", _E, "Kubernetes version", "What a version does not know it drops or refuses."),
    Code("TW308", _E, "pod larger than the node", "The pods would stay Pending for ever."),
    Code("TW310", _E, "capability refused", "The API server would refuse the pods."),
    Code("TW311", _E, "claim without a size", "A claim that the foundation creates needs a size."),
    Code("TW312", _E, "storage class", "The claim would stay Pending for ever."),
    # Topology and target
    Code("TW401", _E, "target refuses the topology", "The operator cannot give the ranks what they need to find each other."),
    Code("TW402", _E, "generated name too long",
         "Names of pods are DNS labels of at most 63 characters; the API server finds out only when it makes them."),
    Code("TW403", _E, "variable is taken", "A second value would win, or lose, without a word, and break the ranks."),
    Code("TW405", _E, "blank in an argument",
         "A list element is one argument: the program sees an option that it does not know."),
    Code("TW406", _E, "rendezvous against the plan",
         "torchrun hands its node rank to the static rendezvous only, so ranks would not follow the pods."),
    Code("TW407", _E, "variable without effect", "Nothing reads it any more, so the tuning it promises does not happen."),
    Code("TW408", _W, "risky NCCL setting",
         "NCCL's own choice is usually better, and the setting stays when the machines change.", True),
    Code("TW409", _E, "secret in plain text", "dist/ is committed and readable by everyone who reviews it."),
    Code("TW410", _E, "label is taken", "Services and controllers select pods by it."),
    Code("TW411", _E, "command against the plan",
         "An option wins over the plan's variables: ranks wait for others that never come, or train alone."),
    # The lock and dist/
    Code("TW501", _E, "run would restart",
         "An identity moved though the run's own file did not: a profile edit or a new compiler would restart training."),
    Code("TW502", _E, "dist/ is stale", "Argo CD would apply something else than the runs say."),
    Code("TW503", _E, "edited by hand", "The next synth takes the edit back; what a run says is in its own file."),
    Code("TW504", _E, "file missing in dist/", "Argo CD would remove the run."),
    Code("TW505", _W, "foreign file in dist/",
         "Argo CD applies everything in the folder, and nobody reviews where it came from."),
    Code("TW506", _E, "lock cannot be read", "Without it nobody can tell which runs would restart."),
    Code("TW507", _E, "object made twice", "The second would silently replace the first."),
    # Overrides and waivers
    Code("TW601", _E, "override of the plan", "The plan would say one thing and the pods do another."),
    Code("TW602", _E, "override of nothing", "The patch would be dropped without a word."),
    Code("TW603", _E, "override is not valid", "The API server would refuse the object, or drop the field."),
    Code("TW604", _E, "pod security refuses it", "The Job would be there, and the API server would refuse each of its pods."),
    Code("TW605", _E, "network of the node",
         "Peers find each other by DNS names, and on the node's network also share its ports."),
    Code("TW606", _E, "container without resources",
         "Its work is taken from the ranks, and a pod with one such container is evicted first."),
    Code("TW607", _E, "container that never ends",
         "A Job is complete when all containers of its pods have ended; a finished run would keep its nodes."),
    Code("TW611", _E, "waiver expired", "A waiver is a promise with a date."),
    Code("TW612", _W, "waiver without a finding", "It hides the next finding of its kind."),
    Code("TW613", _E, "finding cannot be waived", "The run would not work."),
)

CODES = {row.id: row for row in _ROWS}
"""Every code by its id."""


def found(code: str, where: Where, message: str, fix: str) -> Finding:
    """A finding of a code in the catalogue."""
    entry = CODES[code]
    return Finding(code=code, severity=entry.severity, where=where, message=message, why=entry.why, fix=fix)
