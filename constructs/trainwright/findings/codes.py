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
    Code("TW207", _I, "field without effect", "Nothing reads it: what it says does not happen.", True),
    Code("TW208", _E, "field newer than the image", "The trainer in the image would not do what the run asks."),
    Code("TW209", _W, "warm-up without an end", "The rate never reaches its peak, so the run trains at another rate than it says.", True),
    Code("TW210", _E, "work and topology do not fit", "The ranks would start, and none of them could do the work."),
    Code("TW211", _E, "batch smaller than the ranks", "At the largest size some ranks would have no sample to compute on."),
    Code("TW212", _I, "trainer that is not released",
         "There is no image of it yet: the run can be written and reviewed, and its pods cannot be started.", True),
    Code("TW213", _W, "metrics that nobody gets",
         "The trainer leaves out a place that it cannot write to, with one line in the log, and the run has no curves there.", True),
    Code("TW214", _W, "rate that does not follow the batch",
         "A rate that was tuned for another batch is another rate: SGD learns more slowly, or worse, than it did there.", True),
    Code("TW215", _I, "rate without its batch",
         "A rate of SGD belongs to a batch: one copied from a run on fewer GPUs is too low here, and nothing says so.", True),
    Code("TW220", _E, "out of memory", "Even the lower bound of the estimate does not fit."),
    Code("TW221", _W, "memory is tight", "The upper bound of the estimate does not fit; the run may end out of memory.", True),
    Code("TW222", _E, "DeepSpeed file against the plan",
         "DeepSpeed would not start, or train with another batch or stage than the plan says."),
    Code("TW223", _W, "micro batch left to the number of nodes",
         "A run on more nodes gets another micro batch, or none, and then DeepSpeed does not start.", True),
    Code("TW224", _E, "unknown DeepSpeed key", "At the top level it is ignored without a word; inside a block DeepSpeed does not start."),
    Code("TW225", _E, "DeepSpeed file contradicts itself", "DeepSpeed reads it when all ranks are there, and then does not start."),
    Code("TW226", _W, "value left to auto", "DeepSpeed by itself takes its default for it, or does not start.", True),
    Code("TW227", _W, "DeepSpeed key out of use", "The file promises something that this stage or a newer release does not do.", True),
    Code("TW228", _W, "weights over a slow network", "GPUs wait for weights in each forward and backward pass.", True),
    Code("TW229", _I, "nothing to share", "Sharding over one rank saves nothing and costs copies.", True),
    Code("TW230", _E, "no place for checkpoints", "Without a claim, a restart begins at step 0 and a finished model is lost."),
    Code("TW231", _E, "checkpoints on a volume that cannot keep them",
         "Scratch dies with the pod, and a read-only mount takes no files."),
    Code("TW233", _E, "mount in the way", "The mount hides, or lies in, a folder that the plan mounts."),
    Code("TW234", _E, "unknown claim", "A pod whose claim does not exist stays Pending for ever."),
    Code("TW235", _E, "access mode does not fit", "Several pods cannot all mount the volume, or cannot write to it."),
    Code("TW237", _E, "files too large", "A ConfigMap holds at most 1 MiB, and the API server refuses a larger one."),
    Code("TW236", _W, "grace longer than the notice", "A spot node ends before the last save does.", True),
    Code("TW238", _E, "claim too small for its checkpoints",
         "A new checkpoint is written before an old one is removed: with room for one, the second save fails."),
    Code("TW239", _W, "claim too small for what is kept",
         "The volume is full before the first old checkpoint may go, and saves fail from then on.", True),
    Code("TW240", _E, "no place for data", "What is fetched must outlive the pod that fetches it, and stay as it is while runs read it."),
    Code("TW241", _E, "data on a claim that nobody writes",
         "The Job that fetches the data could not write it, and every pod would wait for it in vain."),
    Code("TW242", _E, "data fetched in two ways", "Two Jobs would copy the same files into the same folder at the same time."),
    Code("TW243", _W, "data written by every pod",
         "Pods start together: they write the same files at the same time, and each fetches everything.", True),
    Code("TW244", _W, "nothing ends the wait for data",
         "The run would hold its nodes, and start its pods over and over, until a person looks.", True),
    Code("TW245", _W, "nobody who may write to the store",
         "Without credentials the first pod ends with 203 before it trains, and so does every attempt after it.", True),
    Code("TW249", _W, "grace longer than a drain", "The autoscaler ends the pod in the middle of its last save.", True),
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
    Code("TW313", _E, "operator not installed", "Nothing would act on the object: it would be there, and no pod would ever start."),
    Code("TW314", _E, "operator too old", "An older release drops or misreads fields, and the run does something else than the plan says."),
    Code("TW315", _W, "operator newer than known", "A newer release may have renamed or removed what the compiler writes.", True),
    Code("TW316", _W, "release that is not named", "Nobody knows whether the scheduler reads what the compiler writes for it.", True),
    Code("TW320", _I, "nothing to watch", "Without metrics nobody is told when the run stops to advance.", True),
    Code("TW321", _I, "steps are not watched", "Only our trainer reports steps and checkpoints.", True),
    Code("TW322", _W, "namespace is not watched", "Prometheus would not find the run's monitor and its alerts, and say nothing.", True),
    Code("TW323", _E, "label of the monitoring", "One key cannot say two things: the object would not be found, or not as the run's."),
    # Topology and target
    Code("TW401", _E, "target refuses the topology", "The operator cannot give the ranks what they need to find each other."),
    Code("TW402", _E, "generated name too long",
         "Names of pods are DNS labels of at most 63 characters; the API server finds out only when it makes them."),
    Code("TW403", _E, "variable is taken", "A second value would win, or lose, without a word, and break the ranks."),
    Code("TW405", _E, "blank in an argument",
         "A list element is one argument: the program sees an option that it does not know."),
    Code("TW406", _E, "rendezvous against the plan",
         "torchrun hands its node rank to the static rendezvous only, so ranks would not follow the pods."),
    Code("TW407", _E, "dead variable", "Nothing reads it any more, or a library stops at it: what it promises does not happen."),
    Code("TW408", _W, "risky setting",
         "The library's own choice is usually better, and the setting stays when the machines change.", True),
    Code("TW409", _E, "secret in plain text", "dist/ is committed and readable by everyone who reviews it."),
    Code("TW410", _E, "label is taken", "Services and controllers select pods by it."),
    Code("TW411", _E, "command against the plan",
         "An option wins over the plan's variables: ranks wait for others that never come, or train alone."),
    Code("TW412", _E, "unknown variable", "The prefix belongs to a library, which reads no such name: a misspelt setting does nothing."),
    Code("TW413", _E, "value that is not read", "A library takes its default instead, or another value, or does not start."),
    Code("TW415", _W, "RDMA without devices", "Pods that ask for no device fall back to TCP without a word, and training waits for the network.", True),
    Code("TW416", _I, "as the profile says", "The fabric is described once, in the cluster profile; a copy in a run is forgotten when it changes.", True),
    Code("TW420", _E, "mpirun against the plan", "mpirun stops at it, or looks for ranks where no pod is."),
    Code("TW421", _W, "no tracker", "Each worker waits for a tracker, and no operator starts one.", True),
    Code("TW422", _W, "one pod without TF_CONFIG", "The operator writes TF_CONFIG only where there are several pods.", True),
    Code("TW423", _W, "mpirun falls short", "mpirun does what its words say: slots stay idle, or ranks miss a host or a variable.", True),
    Code("TW424", _E, "work that Ray does not start", "Ray starts the ranks itself, and its driver reaches the head through two shells."),
    Code("TW425", _E, "more than a TrainJob holds", "The operator would leave pods without what they need, or the API server refuse the object."),
    Code("TW426", _E, "release of Ray", "The operator decides by it what it may ask of Ray, and takes its word for it."),
    Code("TW429", _I, "Keras 3 and several workers",
         "A program that calls fit ends with an error in its first step, after all GPUs were given to it.", True),
    # Scheduling
    Code("TW430", _E, "gang that nobody makes",
         "Pods that name a gang scheduler without a group are started one by one, or never."),
    Code("TW431", _E, "unknown queue", "A run whose queue does not exist stays suspended for ever."),
    Code("TW432", _E, "queue without effect", "Nothing reads it: the run would start at once, outside of every quota."),
    Code("TW433", _E, "releases that do not fit", "The run would be suspended for ever, or started past its queue."),
    Code("TW434", _E, "unknown place", "Pods would wait for a place that no node is in, or be spread without a word."),
    Code("TW436", _E, "kind that the queue does not watch", "Kueue leaves the object alone: the run would start at once, outside of every quota."),
    Code("TW437", _E, "scheduler of the operator", "Pods that name a scheduler which is not there stay Pending for ever."),
    Code("TW440", _I, "run is not fenced off", "Whoever reaches its ports can join or end the run.", True),
    Code("TW435", _W, "two gates", "A run that passed the first gate holds its quota while it waits at the second.", True),
    # Starting, and starting again
    Code("TW450", _W, "ranks that nobody starts", "GPUs stay idle, and each pod trains alone, or waits for ranks that never come.", True),
    Code("TW451", _E, "scheduling by hand", "A label that nobody reads promises what does not happen; one that is read works against the plan."),
    Code("TW452", _E, "unknown priority", "The API server refuses a pod whose PriorityClass does not exist."),
    Code("TW453", _W, "nothing to go on from", "Every restart begins at step 0, and nothing ends a run that never gets further.", True),
    Code("TW454", _E, "container of the operator", "The object would be there, and the API server would refuse its pods."),
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
    Code("TW608", _E, "ports of another run", "Two runs that meet on one node could not both listen, and one would never start."),
    Code("TW611", _E, "waiver expired", "A waiver is a promise with a date."),
    Code("TW612", _W, "waiver without a finding", "It hides the next finding of its kind."),
    Code("TW613", _E, "finding cannot be waived", "The run would not work."),
    # Validation
    Code("TW701", _E, "no such kind or version", "The API server would answer that it knows no such resource, and the sync would fail."),
    Code("TW702", _W, "kind without a schema",
         "What has no CustomResourceDefinition here is not validated: the cluster would be the first to check it."),
    Code("TW703", _E, "unknown field", "The API server drops it without a word, or refuses the object where validation is strict."),
    Code("TW704", _E, "missing field", "The API server would refuse the object."),
    Code("TW705", _E, "value that the API refuses", "The API server would refuse the object."),
    Code("TW706", _E, "twice in one list", "The items of the list are told apart by this key, so the API server would refuse the object."),
    Code("TW707", _E, "rule of the CRD broken", "The API server evaluates the rule, and would refuse the object."),
    Code("TW708", _W, "rule not evaluated", "Nobody knows before the cluster whether the object keeps it."),
    Code("TW709", _E, "not an object", "Only objects with a version, a kind and a legal name can be applied."),
    Code("TW710", _E, "CRD cannot be used", "Objects of its kind would be validated against nothing, or against the wrong schema."),
    Code("TW711", _E, "operator refuses it",
         "The webhook would refuse the object; or, where only the controller checks, it would be there and nothing would run."),
    Code("TW712", _E, "value that kubectl reads otherwise",
         "kubectl and Argo CD follow YAML 1.1 in places: what is applied would not be what was reviewed."),
)

CODES = {row.id: row for row in _ROWS}
"""Every code by its id."""


def found(code: str, where: Where, message: str, fix: str) -> Finding:
    """A finding of a code in the catalogue."""
    entry = CODES[code]
    return Finding(code=code, severity=entry.severity, where=where, message=message, why=entry.why, fix=fix)
