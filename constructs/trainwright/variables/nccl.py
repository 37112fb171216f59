"""NCCL: settings of a system, which the user guide lets stay in scripts, and those of its log."""

from __future__ import annotations

from trainwright.variables.entry import Risk
from trainwright.variables.guide import nccl
from trainwright.variables.values import COUNT, PATH, SIZE, SWITCH, TEXT, Choice, Form, Listed, Positive, Whole

_EXACT = "= before them for exact names, ^ to leave them out"

INTERFACES = Form(r"\^?=?[A-Za-z0-9_.\-]+(:[0-9]+)?(,[A-Za-z0-9_.\-]+(:[0-9]+)?)*", f"names with , between; {_EXACT}")
ADAPTERS = Form(
    r"\^?=?[A-Za-z0-9_\-]+(:[0-9]*(:-?[0-9]+(:-?[0-9]+)?)?)?(,[A-Za-z0-9_\-]+(:[0-9]*(:-?[0-9]+(:-?[0-9]+)?)?)?)*",
    f"adapters with , between, each as name:port:rail:plane; {_EXACT}",
)
LOG_LEVELS = ("VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE", "ALL")
SUBSYSTEMS = (
    "INIT",
    "COLL",
    "P2P",
    "SHM",
    "NET",
    "GRAPH",
    "TUNING",
    "ENV",
    "ALLOC",
    "ALLOC_HOST",
    "CALL",
    "PROXY",
    "NVLS",
    "BOOTSTRAP",
    "REG",
    "PROFILE",
    "RAS",
    "DESTROY",
    "ALL",
)
PLUGIN = Risk("loads a library that must be in the image, and NCCL goes on without it where it is not", ("none",))

SYSTEM = (
    nccl("NCCL_SOCKET_IFNAME", "interfaces for bootstrap and TCP", INTERFACES),
    nccl("NCCL_SOCKET_FAMILY", "IPv4 or IPv6 only", Choice(("AF_INET", "AF_INET6"), exact=True)),
    nccl("NCCL_SOCKET_MAGIC", "number that opens each TCP handshake, so that strangers are refused", SIZE),
    nccl("NCCL_SOCKET_RETRY_CNT", "attempts to connect", COUNT, "2.24"),
    nccl("NCCL_SOCKET_RETRY_SLEEP_MSEC", "wait before the first new attempt; it grows with each", COUNT, "2.24"),
    nccl("NCCL_SOCKET_POLL_TIMEOUT_MSEC", "how long a poll of a socket may wait during bootstrap", SIZE, "2.28"),
    nccl("NCCL_PSK", "pre-shared key that turns on TLS for host traffic", Form(r"|.{32,}", "empty, or at least 32 characters")),
    nccl("NCCL_SOCKET_NTHREADS", "CPU threads for one TCP connection", Whole(1, 16), "2.4.8"),
    nccl("NCCL_NSOCKS_PERTHREAD", "sockets of each of these threads", Whole(1, 64), "2.4.8"),
    nccl("NCCL_CROSS_NIC", "whether a ring may use different adapters on different nodes", Choice(("0", "1", "2"))),
    nccl("NCCL_IB_HCA", "RDMA adapters that carry traffic", ADAPTERS),
    nccl(
        "NCCL_IB_RAIL_POLICY",
        "how rails and planes are assigned to adapters",
        Choice(("NONE", "CX9", "CX9:FLIP", "CX9:ALT", "CX9:BLOCK")),
        "2.30.5",
    ),
    nccl("NCCL_IB_TIMEOUT", "InfiniBand's timeout, 4.096 µs x 2^value; 0 waits for ever", Whole(0, 31)),
    nccl("NCCL_IB_RETRY_CNT", "InfiniBand's retries", Whole(0, 7), "2.1.15"),
    nccl(
        "NCCL_IB_GID_INDEX",
        "index of the RoCE address",
        Whole(-1, 255),
        "2.1.4",
        risk=Risk("is a fact of the machines; left out, NCCL finds the index itself, node by node, since 2.21", ("-1",)),
        instead="remove it, or state fabric.gid_index in the cluster profile",
    ),
    nccl(
        "NCCL_IB_ADDR_FAMILY", "family of the RoCE address that NCCL chooses", Choice(("AF_INET", "AF_INET6"), exact=True), "2.21"
    ),
    nccl(
        "NCCL_IB_ADDR_RANGE",
        "range that NCCL chooses the RoCE address from",
        Form(r"[0-9a-fA-F.:]+/[0-9]{1,3}", "a CIDR range"),
        "2.21",
    ),
    nccl("NCCL_IB_ROCE_VERSION_NUM", "version of RoCE that NCCL chooses", Choice(("1", "2")), "2.21"),
    nccl("NCCL_IB_PKEY", "index of the partition key", SIZE, "2.1.4"),
    nccl("NCCL_IB_PKEY_VALUE", "the partition key itself", Whole(-1, 0xFFFF), "2.31"),
    nccl("NCCL_IB_SL", "InfiniBand's service level", Whole(-1, 15), "2.1.4"),
    nccl("NCCL_IB_TC", "InfiniBand's and RoCE's traffic class", Whole(-1, 255), "2.1.15"),
    nccl("NCCL_IB_FIFO_TC", "traffic class of control messages", Whole(-1, 255), "2.22.3"),
    nccl("NCCL_IB_RETURN_ASYNC_EVENTS", "whether a fatal event of an adapter ends its traffic", SWITCH, "2.23"),
    nccl("NCCL_IB_EVENT_BASED_LB", "whether merged adapters share traffic by their speed", SWITCH, "2.31"),
    nccl("NCCL_OOB_NET_ENABLE", "whether bootstrap goes over NCCL's own network", SWITCH, "2.23"),
    nccl("NCCL_OOB_NET_IFNAME", "devices for that", INTERFACES, "2.23"),
    nccl("NCCL_UID_STAGGER_THRESHOLD", "ranks from which on the start is staggered", COUNT, "2.23"),
    nccl("NCCL_UID_STAGGER_RATE", "messages a second of a staggered start", COUNT, "2.23"),
    nccl("NCCL_NET", "the network to use: IB, Socket or the name of a plugin's", TEXT, "2.10"),
    nccl(
        "NCCL_NET_PLUGIN",
        "plugin for the network",
        TEXT,
        "2.11",
        risk=PLUGIN,
        instead="set NCCL_NET to the name of its network, so that NCCL stops without it, and waive this",
    ),
    nccl("NCCL_GIN_PLUGIN", "plugin for networking that GPUs start", TEXT, "2.29.3", risk=PLUGIN),
    nccl("NCCL_RMA_PLUGIN", "plugin for one-sided operations", TEXT, "2.30.7", risk=PLUGIN),
    nccl("NCCL_TUNER_PLUGIN", "plugin that chooses algorithms", TEXT, risk=PLUGIN),
    nccl("NCCL_PROFILER_PLUGIN", "plugin for profiling", TEXT, risk=PLUGIN),
    nccl("NCCL_ENV_PLUGIN", "plugin that supplies settings", TEXT, "2.28", risk=PLUGIN),
    nccl("NCCL_IGNORE_CPU_AFFINITY", "whether NCCL's threads ignore the CPUs that the process was given", SWITCH, "2.4.6"),
    nccl("NCCL_CONF_FILE", "file of settings", PATH, "2.23"),
    nccl("NCCL_DEBUG", "how much NCCL logs", Choice(("VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE"))),
    nccl("NCCL_DEBUG_LEVELS", "levels to log besides", Listed(LOG_LEVELS), "2.32"),
    nccl("NCCL_DEBUG_FILE", "file of the log; %h is the host, %p the process", PATH, "2.2.12"),
    nccl("NCCL_DEBUG_SUBSYS", "parts of NCCL whose INFO messages are logged", Listed(SUBSYSTEMS), "2.3.4"),
    nccl("NCCL_DEBUG_TIMESTAMP_FORMAT", "form of the time in the log, as for strftime", TEXT, "2.26"),
    nccl("NCCL_DEBUG_TIMESTAMP_LEVELS", "levels that are logged with the time", Listed(LOG_LEVELS), "2.26"),
    nccl("NCCL_COLLNET_ENABLE", "whether to use the CollNet plugin", SWITCH, "2.6"),
    nccl("NCCL_COLLNET_NODE_THRESHOLD", "nodes below which CollNet is not used", SIZE, "2.9.9"),
    nccl(
        "NCCL_CTA_POLICY",
        "whether NCCL spares GPU blocks",
        Form(
            r"[012]|(?i:(DEFAULT|EFFICIENCY|ZERO)(\|(DEFAULT|EFFICIENCY|ZERO))*)",
            "DEFAULT, EFFICIENCY, ZERO with | between; or 0, 1, 2",
        ),
        "2.27",
    ),
    nccl("NCCL_NETDEVS_POLICY", "how GPUs share adapters", Form(r"(?i:AUTO|ALL|MAX:[1-9][0-9]*)", "AUTO, ALL, MAX:N"), "2.28"),
    nccl(
        "NCCL_MULTI_RANK_GPU_ENABLE",
        "whether ranks may share a GPU",
        SWITCH,
        "2.30",
        risk=Risk("is experimental, and a GPU without room for all its ranks hangs", ("0",)),
    ),
    nccl("NCCL_TOPO_FILE", "description of the machine, to load before NCCL looks for itself", PATH, "2.6"),
    nccl("NCCL_TOPO_DUMP_FILE", "file to write what NCCL found to", PATH, "2.6"),
    nccl("NCCL_SET_THREAD_NAME", "whether NCCL's threads have names", Choice(("0", "1", "T", "F", "TRUE", "FALSE")), "2.12"),
    nccl("NCCL_RAS_ENABLE", "whether the health service runs", SWITCH, "2.24"),
    nccl("NCCL_RAS_ADDR", "where it listens", Form(r"(\[[0-9a-fA-F:]+\]|[^\s:]+):[0-9]{1,5}", "host:port"), "2.24"),
    nccl("NCCL_RAS_TIMEOUT_FACTOR", "factor on all its timeouts", Positive(), "2.24"),
)
