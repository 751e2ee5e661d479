"""Terms of the catalogue: the word of the vendor's documents, and a document that has it."""

from typing import NamedTuple


class Term(NamedTuple):
    words: tuple[str, ...]
    avoid: tuple[str, ...]
    source: str


TERMS: dict[str, Term] = {
    "collective": Term(("集合通信",), ("集体通信",), "Ascend/MindSpeed@028de58c:README.md"),
    "communicator": Term(
        ("通信域",),
        ("通讯域",),
        "Ascend/pytorch@9e73e708:docs/zh/api/environment_variable/collective_communication/P2P_HCCL_BUFFSIZE.md",
    ),
    "process group": Term(
        ("通信组",), ("进程群",), "Ascend/MindSpeed@028de58c:docs/zh/dir_structure.md"
    ),
    "set up|connect": Term(
        ("建链",),
        (),
        "Ascend/pytorch@9e73e708:docs/zh/api/environment_variable/appendix/runtimeerror_Inner_Error.md",
    ),
    "operator": Term(("算子",), ("操作符", "运算符"), "Ascend/MindSpeed@028de58c:README.md"),
    "operator package": Term(
        ("算子包",), (), "hicann/hccl@09300b70:docs/zh/api_ref/hccl_header_and_lib.md"
    ),
    "fused": Term(("融合",), (), "Ascend/MindSpeed@028de58c:README.md"),
    "super ?pod": Term(
        ("超节点",),
        ("超级节点", "超级舱"),
        "hicann/hccl@09300b70:docs/zh/user_guide/api_comm_impl.md",
    ),
    "tensor parallel": Term(
        ("张量并行",), ("张量平行",), "Ascend/MindSpeed@028de58c:docs/zh/_menu.md"
    ),
    "pipeline": Term(("流水线",), ("管道并行",), "Ascend/MindSpeed@028de58c:docs/zh/_menu.md"),
    "sequence parallelism": Term(("序列并行",), (), "Ascend/MindSpeed@028de58c:docs/zh/_menu.md"),
    "context parallel": Term(
        ("上下文并行",), ("语境并行",), "Ascend/MindSpeed@028de58c:docs/zh/dir_structure.md"
    ),
    "expert parallel": Term(("专家并行",), (), "Ascend/MindSpeed@028de58c:docs/zh/_menu.md"),
    "data parallel": Term(("数据并行",), (), "Ascend/MindSpeed@028de58c:docs/zh/_menu.md"),
    "driver": Term(("驱动",), ("驱动器", "驱动程式"), "Ascend/pytorch@9e73e708:COMPATIBILITY.md"),
    "firmware": Term(("固件",), ("韧体",), "Ascend/pytorch@9e73e708:COMPATIBILITY.md"),
    "container": Term(("容器",), (), "Ascend/MindSpeed@028de58c:ci/OVERVIEW.zh.md"),
    "image": Term(("镜像",), ("映像",), "Ascend/MindSpeed@028de58c:ci/OVERVIEW.zh.md"),
    "checkpoint": Term(("检查点",), (), "Ascend/MindSpeed@028de58c:docs/zh/dir_structure.md"),
    "gradient": Term(("梯度",), ("坡度",), "Ascend/MindSpeed@028de58c:docs/zh/dir_structure.md"),
    "loss": Term(
        ("损失",), (), "Ascend/MindSpeed@028de58c:docs/zh/features/async-log-allreduce.md"
    ),
    "optimizer": Term(("优化器",), ("最佳化器",), "Ascend/MindSpeed@028de58c:README.md"),
    "recomput": Term(("重计算",), (), "Ascend/MindSpeed@028de58c:docs/zh/_menu.md"),
    "attention": Term(("注意力",), (), "Ascend/MindSpeed@028de58c:docs/zh/dir_structure.md"),
    "interface|network card": Term(("网卡",), (), "Ascend/pytorch@9e73e708:SECURITYNOTE.en.md"),
    "network port": Term(
        ("网口",), (), "hicann/hccl@09300b70:docs/zh/architecture/architecture-brief.md"
    ),
    "optical module": Term(
        ("光模块",),
        ("光学模组",),
        "hicann/hccl@09300b70:docs/zh/user_guide/hccl_env/HCCL_OP_RETRY_ENABLE.md",
    ),
    "heartbeat": Term(
        ("心跳",), (), "hicann/hccl@09300b70:docs/zh/user_guide/fault_diagnosis/debug_thinking.md"
    ),
    "watchdog": Term(
        ("看门狗",),
        (),
        "Ascend/pytorch@9e73e708:docs/zh/user_guide/troubleshooting/error_information_analysis_guide/error_information_analysis/process_thread_reference.md",
    ),
    "white ?list": Term(
        ("白名单",),
        (),
        "hicann/hccl@09300b70:docs/zh/user_guide/hccl_env/HCCL_WHITELIST_DISABLE.md",
    ),
    "environment variable": Term(
        ("环境变量",), ("环境变数",), "Ascend/MindSpeed@028de58c:ci/OVERVIEW.zh.md"
    ),
    "port": Term(("端口",), ("埠",), "Ascend/MindSpeed@028de58c:docs/zh/SECURITYNOTE.md"),
    "node": Term(
        ("节点",), ("结点",), "Ascend/MindSpeed@028de58c:docs/zh/features/Automatic_Parallelism.md"
    ),
    "health": Term(
        ("健康",), (), "Ascend/mind-cluster@22bb3d98:component/ascend-device-plugin/README.md"
    ),
    "weights?": Term(("权重",), ("权值",), "Ascend/MindSpeed@028de58c:README.md"),
}
