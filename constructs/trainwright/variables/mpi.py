"""Open MPI and Intel MPI.

The frameworks are those that ``ompi_info --all`` of Open MPI 4.1.8 and 5.0.11 lists, and those of its source that these builds
leave out. Within a framework each component has parameters of its own: they are not checked.

Open MPI says that a value cannot be read and keeps its default (opal/mca/base/mca_base_var.c), or leaves a network out
(opal/mca/btl/tcp/btl_tcp_component.c). A list of components ends the program where it names one that is not there, or ^ inside
(opal/mca/base/mca_base_component_find.c). Intel MPI has no source to read: that it ends is said of nothing.
"""

from __future__ import annotations

from trainwright.variables.entry import TEXT, Choice, Entry, Family, Form, Library, Values

_OPEN = "https://docs.open-mpi.org/en/v5.0.x/mca.html"
_TCP = "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/tcp.html"
_FOUR = "https://www.open-mpi.org/faq/?category=tuning"
_INTEL = "https://www.intel.com/content/www/us/en/docs/mpi-library/developer-reference-linux/current"

_FRAMEWORKS = """
accelerator allocator atomic backtrace bml btl coll common compress crcp crs dl dpm errmgr ess event fbtl fcoll filem fs
grpcomm hook hwloc if installdirs io iof mca memchecker memcpy memheap memory mpi mpool mtl odls ompi oob op opal orte osc
oshmem part patcher plm pmix pml prte prtebackend pstat pubsub ras rcache reachable regx rmaps rml routed rtc rte schizo scoll
sharedfp shmem smsc snapc spml sshmem sstore state threads timer topo vprotocol
""".split()  # noqa: SIM905 (words, as ompi_info lists them)

_SELECTION = Form(r"\^?[A-Za-z0-9_]+(,[A-Za-z0-9_]+)*", "components separated by commas; ^ before them excludes them")
_NETWORKS = Form(r"[A-Za-z0-9_.:/\-]+(,[A-Za-z0-9_.:/\-]+)*", "interfaces or CIDR ranges separated by commas")
_COMPONENTS = Form(r"\^+[^^]*|[A-Za-z0-9_]+(,[A-Za-z0-9_]+)*", "components that there are, or ^ before those to exclude")
_ENABLE = Choice(("1", "0", "yes", "no", "on", "off", "enable", "disable"))
_VERBOSE = Form(r"\s*-?[0-9]+|none|error|component|warn|info|trace|debug|max", "a number, or none, error, warn, info, debug, max")
_WORDS = Form(r"\s*(-?[0-9]+|true|t|enabled|yes|y|false|f|disabled|no|n)", "0, 1, true, false, yes, no")


def _open(parameter: str, what: str, values: Values, source: str = _OPEN) -> Entry:
    must = _COMPONENTS if values is _SELECTION else None
    return Entry(f"OMPI_MCA_{parameter}", Library.OPEN_MPI, what, values, source, must=must)


def _intel(name: str, what: str, values: Values, page: str) -> Entry:
    return Entry(f"I_MPI_{name}", Library.INTEL_MPI, what, values, f"{_INTEL}/{page}.html")


MPI = (
    _open("btl", "components that move bytes", _SELECTION),
    _open("pml", "component that moves messages", _SELECTION),
    _open("mtl", "component that matches messages", _SELECTION),
    _open("coll", "components for collectives", _SELECTION),
    _open("osc", "components for one-sided operations", _SELECTION),
    _open("btl_tcp_if_include", "networks for TCP between ranks", _NETWORKS, _TCP),
    _open("btl_tcp_if_exclude", "networks that TCP between ranks leaves out", _NETWORKS, _TCP),
    _open("oob_tcp_if_include", "networks for Open MPI 4's own messages", _NETWORKS, _FOUR),
    _open("oob_tcp_if_exclude", "networks that these leave out", _NETWORKS, _FOUR),
    _open("btl_base_verbose", "how much the components log", _VERBOSE),
    _open("plm_rsh_agent", "program that starts processes on other hosts", TEXT, _FOUR),
    _open("plm_rsh_args", "arguments for it", TEXT, _FOUR),
    _open("plm_rsh_no_tree_spawn", "whether the launcher reaches every host itself", _WORDS, _FOUR),
    _open("orte_keep_fqdn_hostnames", "whether host names keep their domain", _WORDS, _FOUR),
    _open("orte_default_hostfile", "list of hosts", TEXT, _FOUR),
    _open("orte_set_default_slots", "slots of a host that states none", TEXT, _FOUR),
    _open("rmaps_base_mapping_policy", "how ranks are placed", TEXT, _FOUR),
    _open("hwloc_base_binding_policy", "what ranks are bound to", TEXT, _FOUR),
    _open("mpi_warn_on_fork", "whether a fork is warned of", _WORDS),
    _open("opal_cuda_support", "whether GPU memory may be sent", _WORDS),
    _open("opal_warn_on_missing_libcuda", "whether a missing CUDA is warned of", _WORDS),
    _intel(
        "FABRICS",
        "networks of Intel MPI",
        Choice(("shm", "ofi", "shm:ofi")),
        "communication-fabrics-control",
    ),
    _intel("OFI_PROVIDER", "libfabric's provider", TEXT, "ofi-capable-network-fabrics-control"),
    _intel(
        "OFI_PROVIDER_DUMP",
        "whether providers are listed",
        _ENABLE,
        "ofi-capable-network-fabrics-control",
    ),
    _intel(
        "OFI_DRECV",
        "whether receives are direct",
        _ENABLE,
        "ofi-capable-network-fabrics-control",
    ),
    _intel(
        "DEBUG",
        "how much it logs: a level, then flags",
        Form(r"[0-9]+(,[a-z+]+)*", "a level, then flags with ,"),
        "other-environment-variables",
    ),
)

MPI_FAMILIES = (
    *(Family(f"OMPI_MCA_{name}", Library.OPEN_MPI, f"parameters of Open MPI's {name}", _OPEN) for name in _FRAMEWORKS),
    Family(
        "I_MPI",
        Library.INTEL_MPI,
        "the other settings of Intel MPI, which are not checked",
        f"{_INTEL}/environment-variable-reference.html",
    ),
)
