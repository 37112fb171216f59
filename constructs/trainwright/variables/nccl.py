"""NCCL: settings of a system, which the user guide lets stay in scripts, those of its log, and names that no guide has.

What NCCL does with a value that it cannot read is that of its source, release 2.30.7. A number goes through ``strtoll``, which
takes the digits before the first letter (src/misc/param.cc). A word that it does not know counts as not set, or as its default
(src/debug.cc, src/init.cc, src/misc/socket.cc, src/transport/net_ib/connect.cc, src/graph/topo.cc), and a number out of range
often as the nearest limit (src/graph/tuning.cc, src/transport/net_socket.cc). Only a list of algorithms or protocols with an
unknown word ends the program (src/graph/tuning.cc, parseList), and interfaces of which none is there (src/bootstrap.cc).
"""

from __future__ import annotations

from trainwright.variables.entry import (
    COUNT,
    PATH,
    SIZE,
    SWITCH,
    TEXT,
    Choice,
    Entry,
    Family,
    Form,
    Library,
    Listed,
    Positive,
    Risk,
    Values,
    Whole,
)

PAGE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"

LEVELS = Form(r"LOC|NVL|NVB|C2C|PIX|PXB|P2C|PXN|PHB|SYS|[0-9].*", "LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, or 0 to 5")
"""Kinds of paths, compared with strcmp, and their old numbers, of which a larger one counts as 5 (NCCL, src/graph/paths.cc,
ncclGetLevel and levelsOldToNew)."""


def nccl(
    name: str,
    what: str,
    values: Values,
    since: str | None = None,
    *,
    risk: Risk | None = None,
    deprecated: str | None = None,
    instead: str | None = None,
    must: Values | None = None,
) -> Entry:
    """A variable that the guide describes, with the heading that does."""
    source = f"{PAGE}#{name.lower().replace('_', '-')}"
    return Entry(name, Library.NCCL, what, values, source, since, deprecated=deprecated, risk=risk, instead=instead, must=must)


def removed(name: str, what: str, until: str, values: Values, instead: str, since: str | None = None) -> Entry:
    """A variable that the guide still describes and no release reads."""
    source = f"{PAGE}#{name.lower().replace('_', '-')}"
    dead = f"has no effect: removed in NCCL {until}"
    return Entry(name, Library.NCCL, what, values, source, since, until, dead=dead, instead=instead)


_EXACT = "= before them for exact names, ^ to exclude them"

INTERFACES = Form(r"\^?=?[A-Za-z0-9_.\-]+(:[0-9]+)?(,[A-Za-z0-9_.\-]+(:[0-9]+)?)*", f"names separated by commas; {_EXACT}")
ONE_INTERFACE = Form(r"\^.*|.?|(.*,)?=?[^\s,/]{1,15}(:[0-9]*)?(,.*)?", "one name at least that an interface may have")
"""Names are compared as they are, blanks and all, and NCCL ends where it finds none of them (src/misc/socket.cc,
ncclFindInterfaces; src/bootstrap.cc)."""
ADAPTERS = Form(
    r"\^?=?[A-Za-z0-9_\-]+(:[0-9]*(:-?[0-9]+(:-?[0-9]+)?)?)?(,[A-Za-z0-9_\-]+(:[0-9]*(:-?[0-9]+(:-?[0-9]+)?)?)?)*",
    f"adapters separated by commas, each as name:port:rail:plane; {_EXACT}",
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
PLUGIN = Risk("loads a library that must be in the image; if it is missing, NCCL continues without it", ("none",))

SYSTEM = (
    nccl("NCCL_SOCKET_IFNAME", "interfaces for bootstrap and TCP", INTERFACES, must=ONE_INTERFACE),
    nccl("NCCL_SOCKET_FAMILY", "IPv4 or IPv6 only", Choice(("AF_INET", "AF_INET6"), exact=True)),
    nccl("NCCL_SOCKET_MAGIC", "number that opens each TCP handshake, so that foreign connections are refused", SIZE),
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
    nccl("NCCL_IB_TIMEOUT", "InfiniBand's timeout, 4.096 µs x 2^value; 0 waits forever", Whole(0, 31)),
    nccl("NCCL_IB_RETRY_CNT", "InfiniBand's retries", Whole(0, 7), "2.1.15"),
    nccl(
        "NCCL_IB_GID_INDEX",
        "index of the RoCE address",
        Whole(-1, 255),
        "2.1.4",
        risk=Risk("depends on the machines; if left out, NCCL finds the index itself on each node, since 2.21", ("-1",)),
        instead="remove it; fabric.gid_index of the pool, in the cluster profile, is the field for it",
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


_SOURCE = "https://github.com/NVIDIA/nccl/tree/master/src"
_RISK = Risk("is read by NCCL but not in its user guide: it may change its meaning, or go, with any release")
_NAMES = """
AGG_CHANNEL_SIZE ALLGATHERV_ENABLE CE_CHUNK_SIZE CE_COLL_AG_MULTICAST_THRESHOLD CE_INTRA_GPU_MEMCPY_ENABLE CFT_ENABLE CHUNK_SIZE
COMM_ID COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONNECT_ROUND_MAX_PEERS CREATE_THREAD_CONTEXT CUDA_PATH
DEV_API_JIT DIAGNOSTICS_ECC_THRESHOLD DIAGNOSTICS_IB_BW_TIMEOUT DISABLE_MEM_MANAGER ELASTIC_BUFFER_REGISTER ENABLE_VERSION_CHECK
ENQUEUE_REARCH_ENABLE GDAKI_FORCE_MCST GDAKI_USE_RELIABLE_DB GDRCOPY_USE_INTERNAL_DMABUF GDR_FLUSH_DISABLE GIN_ENABLE
GIN_ERROR_QUERY_SEC GIN_GDAKI_LAG_AWARE_DISABLE GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC GIN_GDAKI_NIC_HANDLER
GIN_GDAKI_QP_DEPTH GIN_IB_ALLGATHER_TAG GIN_IB_ALLTOALL_TAG GIN_IB_OOO_OPT GIN_IB_TC GIN_NCONNECTIONS GIN_PROXY_NTHREADS
GIN_PROXY_POLL_BATCH GIN_PROXY_QUEUE_SIZE GIN_TYPE GRAPH_DUMP_FILE GRAPH_DUMP_FILE_RANK GRAPH_FILE GRAPH_HELPER_DISABLE
GROUP_CUDA_STREAM HIER_CE_COLL_AG_RAIL_RING_ENABLE HIER_CE_COLL_NUM_CTX HOSTID IBVERBS_LIB IB_DATA_DIRECT IB_DEVICE_PCI_ORDER
IB_EVENT_BASED_LB_REMOTE IB_MERGE_VFS IB_MLX_VENDOR_ID IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC
IB_PREPOST_RECEIVE_WORK_REQUESTS IB_QUERY_PORT_SPEED IB_RECEIVER_SIDE_MATCHING_SCHEME IB_RESILIENCY_PORT_FAILOVER
IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY IB_RESILIENCY_PORT_RECOVERY
IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX IB_RESILIENCY_PORT_RECOVERY_START_DELAY
IB_ROUTABLE_FLID_GID_INDEX IB_SORT_MERGE_NICS IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN IB_USE_INLINE IB_VR_RAILS_PER_SOCKET
IB_VR_SOCKET_COUNT IB_WARN_RAIL_LOCAL IB_WQE_LATENCY_REPORT IB_WQE_LATENCY_THRESHOLD_NS IGNORE_DISABLED_P2P
L1_SHARED_MEMORY_CARVEOUT LL128_BUFFSIZE LL128_C2C LL128_NTHREADS LL_BUFFSIZE LSA_TEAM_SIZE MAX_P2P_NCHANNELS MIN_P2P_NCHANNELS
MLOPART_RDMA_ENABLE MNNVL_CROSS_CLIQUE MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE MULTI_SEGMENT_REGISTER
NCHANNELS_PER_NET_PEER NET_DISABLE_INTRA NET_FORCE_FLUSH NET_FORCE_MERGE NET_GDR_MLOPART NET_MERGE_LEVEL
NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NO_CACHE NUM_RMA_CTX NUM_RMA_INT_CTX NVB_PRECONNECT NVLINK_UTIL_CENTRIC_SCHED_ENABLE
NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_NCHANNELS NVLS_UB_SIZE NVTX_DISABLE P2P_EPOCH_ENABLE P2P_MAX_PEERS P2P_NVL_CHUNKSIZE
P2P_PCI_CHUNKSIZE P2P_PER_CHANNEL_NET_BW P2P_PER_CHANNEL_REG_NET_BW P2P_READ_ENABLE P2P_SCHEDULE_GROUP_SIZE P2P_USE_CUDA_MEMCPY
PARAM_DUMP_ALL PAT_ENABLE PAT_NDIMS PROGRESS_APPENDOP_FREQ PROGRESS_COUNTERS PROGRESS_COUNTER_MONITOR_POLL_MS
PROGRESS_COUNTER_MONITOR_STALE_MS PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PROXY_DUMP_SIGNAL
REPORT_CONNECT_PROGRESS RMA_DISABLE RMA_IB_WR_BATCHSIZE RMA_MULTI_CTX_THRESHOLD RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE
RUN_DIAGNOSTICS RUN_RAS_DIAGNOSTICS SET_CPU_STACK_SIZE SHADOW_MEMPOOL_MAX_SIZE SHM_LOCALITY SHM_MEMCPY_MODE SHM_USE_CUDA_MEMCPY
SINGLE_PROC_MEM_REG_ENABLE SOCKET_INLINE SOCKET_MIN_TASKSIZE SOCKET_RCVBUF SOCKET_SNDBUF SYM_CE_THRESHOLD SYM_CTAS SYM_KERNEL
SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE THREAD_THRESHOLDS TOPO_DUMP_FILE_RANK
TOPO_SPLIT_MLOPART UNPACK_DOUBLE_NCHANNELS WARN_ENABLE_DEBUG_INFO WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES WORK_FIFO_DEPTH
""".split()  # noqa: SIM905 (words, as the library holds them)

INTERNAL = tuple(Entry(f"NCCL_{name}", Library.NCCL, "not documented", TEXT, _SOURCE, risk=_RISK) for name in _NAMES)

_TCPX = "https://github.com/GoogleCloudPlatform/container-engine-accelerators"
_RECIPES = "https://github.com/AI-Hypercomputer/gpu-recipes"
_RDMA = "https://github.com/Mellanox/nccl-rdma-sharp-plugins"

PLUGIN_FAMILIES = (
    Family("NCCL_FASTRAK", Library.NCCL, "settings of Google's plugin for GPUDirect-TCPXO", _TCPX),
    Family("NCCL_GPUDIRECTTCPX", Library.NCCL, "settings of Google's plugin for GPUDirect-TCPX", _TCPX),
    Family("NCCL_SHIMNET", Library.NCCL, "settings of Google's checks of NCCL's configuration", _TCPX),
    Family("NCCL_USE_SNAP", Library.NCCL, "switch of Google's plugin for GPUDirect-TCPXO", _TCPX),
    Family("NCCL_DYNAMIC_CHUNK_SIZE", Library.NCCL, "bytes of a chunk in Google's build for GPUDirect-TCPX", _TCPX),
    Family("NCCL_LIB_DIR", Library.NCCL, "folder of Google's plugin and of its script of settings", _RECIPES),
    Family("NCCL_PLUGIN_PATH", Library.NCCL, "folder that Google's charts copy the plugin to", _RECIPES),
    Family("NCCL_INIT_SCRIPT", Library.NCCL, "script of settings that Google's charts run before the program", _RECIPES),
    Family("NCCL_TUNER_CONFIG_PATH", Library.NCCL, "file of settings for Google's tuner", _RECIPES),
    Family("NCCL_IBEXT", Library.NCCL, "settings of NVIDIA's plugin for InfiniBand and SHARP", _RDMA),
    Family("NCCL_SHARP", Library.NCCL, "settings of NVIDIA's plugin for InfiniBand and SHARP", _RDMA),
    Family("NCCL_UCX", Library.NCCL, "settings of NVIDIA's plugin for UCX", _RDMA),
)
"""Plugins read variables of their own, under NCCL's prefix."""
