"""libfabric, and its provider for EFA.

libfabric logs a switch that it cannot read and keeps its default, and takes the digits before the first letter of a number
(src/var.c, fi_param_get). Only prov/efa/src/efa_env.c ends the program: see ``must``.
"""

from __future__ import annotations

from trainwright.variables.entry import COUNT, NOTHING, SIZE, TEXT, Choice, Entry, Family, Form, Library, Risk, Values, Whole

_CORE = "https://ofiwg.github.io/libfabric/main/man/fabric.7.html"
_EFA = "https://ofiwg.github.io/libfabric/main/man/fi_efa.7.html"
_CODE = "https://github.com/ofiwg/libfabric/blob/main/prov/efa/src/efa_env.c"
_SHEET = "https://github.com/aws-samples/awsome-distributed-training/blob/main/1.architectures/efa-cheatsheet.md"

_DEVICES = Form(r".+", "exact names separated by commas, or all")
_ABOVE_ZERO = Form(r"\s*\+?(0x0*[1-9a-fA-F]|0*[1-9]).*", "a number above 0")

_OFF = ("0", "no", "off", "false")
_OLD = Risk("is deprecated by libfabric, which logs it and goes on")

LEVELS = Form(r"(?i:warn|trace|info|debug)|[0-9]+", "warn, trace, info, debug; a number counts as warn")
"""Any other word counts as warn too (src/log.c, fi_convert_log_str), but may be meant for a level that logs more."""

WORDS = Choice(("0", "1", "no", "yes", "off", "on", "false", "true"))


def _fi(
    name: str, what: str, values: Values, source: str = _EFA, risk: Risk | None = None, must: Values | None = None
) -> Entry:
    return Entry(name, Library.LIBFABRIC, what, values, source, risk=risk, must=must)


def _aborts(name: str, what: str) -> Entry:
    return Entry(
        name,
        Library.LIBFABRIC,
        what,
        SIZE,
        _CODE,
        dead="ends the process: libfabric's EFA provider aborts if it is set",
        instead="remove it",
        must=NOTHING,
    )


LIBFABRIC = (
    _fi(
        "FI_PROVIDER",
        "providers that may be used; ^ before the list excludes them",
        Form(r"\^?[A-Za-z0-9_;\-]+(,[A-Za-z0-9_;\-]+)*", "names separated by commas; ^ before them excludes them"),
        _CORE,
    ),
    _fi("FI_LOG_LEVEL", "how much libfabric logs", LEVELS, _CORE),
    _fi("FI_LOG_PROV", "providers that log", TEXT, _CORE),
    _fi("FI_LOG_SUBSYS", "parts that log", TEXT, _CORE),
    _fi("FI_LOG_INTERVAL", "milliseconds between messages of one kind", SIZE, _CORE),
    _fi("FI_EFA_IFACE", "EFA devices that may be used", _DEVICES, _CODE, must=_DEVICES),
    _fi("FI_EFA_TX_MIN_CREDITS", "fewest credits that a sender asks for", COUNT, _CODE, must=_ABOVE_ZERO),
    _fi("FI_EFA_TX_SIZE", "most sends before the provider says: again", SIZE),
    _fi("FI_EFA_RX_SIZE", "most receives before the provider says: again", SIZE),
    _fi("FI_EFA_TX_QUEUE_SIZE", "depth of the device's queue of sends", SIZE),
    _fi("FI_EFA_RX_WINDOW_SIZE", "packets in flight from one peer", SIZE),
    _fi("FI_EFA_RECVWIN_SIZE", "messages that may arrive out of order", SIZE),
    _fi("FI_EFA_CQ_SIZE", "entries of a completion queue", SIZE),
    _fi("FI_EFA_MR_CACHE_ENABLE", "whether registered memory is remembered", WORDS),
    _fi("FI_EFA_MR_MAX_CACHED_COUNT", "most regions to remember", SIZE),
    _fi("FI_EFA_MR_MAX_CACHED_SIZE", "most bytes to remember", SIZE),
    _fi("FI_EFA_MAX_MEMCPY_SIZE", "bytes up to which data is copied, not registered", SIZE),
    _fi("FI_EFA_RX_COPY_UNEXP", "whether messages nobody waits for are copied out", WORDS),
    _fi("FI_EFA_RX_COPY_OOO", "whether packets out of order are copied out", WORDS),
    _fi("FI_EFA_MAX_TIMEOUT", "longest pause before a peer that is not ready, in µs", SIZE),
    _fi("FI_EFA_TIMEOUT_INTERVAL", "first pause, in µs", SIZE),
    _fi("FI_EFA_ENABLE_SHM_TRANSFER", "whether processes of a node use shared memory; the default", Whole()),
    _fi("FI_EFA_SHM_AV_SIZE", "most peers there", SIZE),
    _fi("FI_EFA_USE_ZCPY_RX", "whether data is received in place", Whole(), _CODE),
    _fi("FI_EFA_ZCPY_RX_SEED", "buffers to post for that", Whole(), _CODE, _OLD),
    _fi("FI_EFA_READCOPY_POOL_SIZE", "packets of the pool for reads", SIZE, _CODE),
    _fi("FI_EFA_EFA_CQ_READ_SIZE", "completions to read at once", SIZE, _CODE),
    _fi("FI_EFA_SHM_CQ_READ_SIZE", "the same of shared memory", SIZE, _CODE),
    _fi("FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE", "bytes up to which a message is medium", SIZE),
    _fi("FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", "bytes from which on the receiver reads", SIZE),
    _fi("FI_EFA_INTER_MIN_READ_WRITE_SIZE", "the same for writes", SIZE),
    _fi("FI_EFA_INTER_READ_SEGMENT_SIZE", "bytes of one read", SIZE, _CODE),
    _fi("FI_EFA_INTER_MAX_GDRCOPY_MESSAGE_SIZE", "bytes up to which gdrcopy is used", SIZE, _CODE),
    _fi("FI_EFA_RUNT_SIZE", "bytes that are sent before the receiver reads", SIZE),
    _fi("FI_EFA_INTERNAL_RX_REFILL_THRESHOLD", "when the pool of receives is filled again", SIZE, _CODE),
    _fi("FI_EFA_USE_SM2", "whether the experimental shared memory is used", WORDS, _CODE),
    _fi("FI_EFA_USE_HUGE_PAGE", "whether buffers lie in huge pages", WORDS, _CODE),
    _fi("FI_EFA_USE_UNSOLICITED_WRITE_RECV", "whether writes with data need no receive", WORDS, _CODE),
    _fi("FI_EFA_USE_DATA_PATH_DIRECT", "whether the device's queues are used without rdma-core", WORDS, _CODE),
    _fi("FI_EFA_IMPLICIT_AV_SIZE", "most peers that nobody has named", SIZE, _CODE),
    _fi("FI_EFA_TRACK_MR", "whether memory in use is not given back", WORDS, _CODE),
    _fi("FI_EFA_USE_HW_CNTR", "whether the device counts completions", Whole(), _CODE),
    _fi("FI_EFA_USE_SQ_REQ_ID_64_BIT", "whether the device's requests have 64 bits", Whole(), _CODE),
    _fi("FI_EFA_DIRECT_CQ_OPS", "whether the device's queue is read directly", WORDS, _CODE),
    _fi(
        "FI_EFA_USE_DEVICE_RDMA",
        "whether the device's RDMA is used",
        WORDS,
        _CODE,
        Risk("is not needed with libfabric 1.18 and later, which asks the device", _OFF),
    ),
    _fi(
        "FI_EFA_FORK_SAFE",
        "whether a process may fork",
        WORDS,
        risk=Risk("gives up huge pages, and has no effect on Linux 5.13 and later", _OFF),
    ),
    _fi("FI_EFA_SET_CUDA_SYNC_MEMOPS", "whether CUDA memory is synchronised", WORDS, _CODE, _OLD),
    _fi("FI_EFA_SHM_MAX_MEDIUM_SIZE", "bytes up to which a message is medium", SIZE, _CODE, _OLD),
    _aborts("FI_EFA_MTU_SIZE", "size of a packet"),
    _aborts("FI_EFA_TX_IOV_LIMIT", "parts of a send"),
    _aborts("FI_EFA_RX_IOV_LIMIT", "parts of a receive"),
)

LIBFABRIC_FAMILIES = (
    Family("OFI_NCCL", Library.LIBFABRIC, "settings of aws-ofi-nccl, the plugin that takes NCCL to libfabric", _SHEET),
)
