"""120 secrets and identities of kinds that others list, each in ten forms: labelled before the first run.

Kinds and formats are from the rules of gitleaks, the words of detect-secrets, what GitHub scans for, the
pages of clouds and trackers, the attributes of OpenTelemetry, and the output of ipmitool, Slurm and
Kubernetes. {a20} is made anew as in hidden.yaml; "«…»" of a text must vanish.
"""

# ruff: noqa: E501, RUF001
import json
import random
import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from tests.redaction.corpus import made, shows

# name=value; "~" in a name is a space.
SECRETS = r"""
  adafruit_io_key={l32} airtable.api.key=key{a14} algolia_admin_key={h32} asana~client~secret={h32}
  jiraApiToken={a24} BITBUCKET_APP_PASSWORD=ATBB{a28} cloudflare_global_api_key={h37}
  codecov_token={h8}-{h4}-{h4}-{h4}-{h12} confluent.cloud.secret={a64} dropbox_access_token=sl.{a60}
  linkedin~client~secret={a16} mailgun-signing-key={h32}-{h8}-{h8} netlify_auth={a43} okta_api_token=00{a40}
  x-rapidapi-key={l50} travis_ci_token={a22} kraken_private_key={b80} AccountKey={b86}==
  contraseña=girasol{d3} keystore.keypass=lampara{d2} priv_key={h64} dbkey={a24} secreto=rio-ancho
  SecurityToken=gQ{b80} CLOUD_SDK_SK={a40} cli-secret-key={a40} OBS_ACCESS_KEY={u20} X-Subject-Token=MII{b60}
  swanlab_secret={a24} hub_token={h8}-{h4}-{h4}-{h4}-{h12} openlibing_secret={a32} TENCENTCLOUD_SECRET_KEY={a32}
  bootstrap-token={l6}.{l16} certificate-key={h64} tls.key={b80} requirepass=blauwal{d2} masterauth=Tr{a9}
  erlang_cookie={u20} bindpw=tannenbaum ansible_become_pass=h4us{d3} wpa_psk=regenbogen{d2} 授权码={l16}
  登录口令=Cang{d4}hai 私钥={h64} kennwort=Butterblume! mot_de_passe=lavande{d2} пароль=zimnij{d2}
"""
TOKENS = r"""
  AGE-SECRET-KEY-1{u58} pat{a14}.{h64} 4b1d{a38} CLOJARS_{l60} dop_v1_{h64} duffel_live_{a43} EZAK{a54}
  FLWSECK_TEST-{h32}-X fio-u-{a64} pat.{a22}.{a24}.{a20} HRKU-AA{a58} ico-{a32} s-s4t2ud-{h64}
  {a6}_{a29}_mmk API-{u26} sntryu_{h64} shpss_{h32} xapp-1-{u11}-{d13}-{l64} p8e-{l32} lsv2_pt_{h32}_{h10}
"""
SECRET_TEXTS = (
    "machine git.example.org login «bo{l5}» password «{a24}»",
    "db.example.org:5432:metrics:writer:«{a14}»",
    '{"auths": {"swr.example.org": {"auth": "«{b40}»"}}}',
    "users:\n- name: admin\n  user:\n    client-certificate-data: «{b60}»\n    client-key-data: «{b60}»",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n«{b70}\n{b70}»\n-----END OPENSSH PRIVATE KEY-----",
    "Authorization: Bearer «eyJ{a17}.eyJ{a40}.{a43}»",
    "Proxy-Authorization: Basic «{b28}»",
    "Cookie: theme=light; sid=«{a32}»; csrftoken=«{a32}»",
    "https://oapi.dingtalk.com/robot/send?access_token=«{h64}»&timestamp=1700000000000&sign=«{a43}»%3D",
    "mongodb+srv://writer:«{a12}»@cluster0.example.org/runs?retryWrites=true",
    "jdbc:mysql://db.example.org:3306/runs?user=writer&password=«tulpe{d3}»&useSSL=true",
    "Server=db.example.org;Database=runs;Uid=writer;Pwd=«{a10}»;",
    "docker login -u cn-north-4@«{u20}» -p «{h64}» swr.cn-north-4.example.org",
    "kind: Secret\ndata:\n  worker: «{b40}»\n  admin: «{b40}»",
)
IDENTITIES = r"""
  host.name=gz2-train-{d3} host.ip=172.22.{d1}.61 host.mac=AC-DE-48-{h2}-3F-67 k8s.node.name=cce-worker-{l5}
  k8s.cluster.name=lakeside-prod cloud.account.id={d12} enduser.id=fmeier{d1} user.email=lena.brandt@uni-see.example
  user.full_name=LenaBrandt client.address=203.0.113.{d2} SLURM_JOB_USER=tkovacs SLURM_CLUSTER_NAME=kiefernwald
  Board~Serial=2102{d6}{u6} Chassis~Serial=CN{u10} Asset~Tag=RZ-{d6} nodeSN=2106{u10} SWR_USERNAME=hutong-ci
  job_owner=pnowak submitted_by=rkaya creator=schen committer=j.molnar 姓名=赵伟明 手机号=139{d8}
  身份证号=11010119900{d6}X 主机名=kunpeng-a{d2} 账号=lfeng{d2} bmc_ip=10.66.{d1}.20
"""
IDENTITY_TEXTS = (
    "scp out.pt «tkovacs»@«kiefer21»:/data/out",
    "Author: «Tamas Kovacs» <«tamas.kovacs@uni-see.example»>",
    "inet «10.21.7.14»/16 brd «10.21.255.255» scope global bond0",
    "«10.21.7.15» dev bond0 lladdr «ac:de:48:17:3f:67» REACHABLE",
    "/data/users/«tkovacs»/ckpt/iter_100",
    "   Static hostname: «kiefer21»",
    "PING «kiefer22» («10.21.7.15») 56(84) bytes of data.",
    "JOBID PARTITION NAME USER ST NODELIST\n  981       npu  run «tkovacs»  R «kiefer21»",
    "NAME       STATUS   INTERNAL-IP\n«cce-worker-a17»    Ready    «192.168.40.17»",
    "«tkovacs»  pts/0  2026-11-28 09:10 («10.21.9.9»)",
    "-rw-r--r-- 1 «tkovacs» npuusers 120 Nov 28 09:10 train.log",
    "Nov 28 09:10:11 «kiefer21» npu-exporter[811]: started",
)
# Texts without secrets and identities: each must stay byte for byte, alone and in one log.
HEALTHY = r"""
megatron.core at {h40} (core_r0.15.3), MindSpeed at {h12}
index {h7}..{h7} 100644
parent {h40}
layer sha256:{h64} already exists
Digest: sha256:{h64}
sha256-{b43}= model-00001-of-00004.safetensors
"integrity": "sha512-{b86}=="
md5sum {h32}  tokenizer.json
{h64}  ./ckpt/iter_0000100/mp_rank_00/model_optim_rng.pt
adler32 {h8} crc32c={h8} xxh64 {h16}
snapshot {h40} of Qwen/Qwen3-8B is complete
models--Qwen--Qwen3-8B/snapshots/{h40}/config.json
blobs/{h64}
"uuid": "{h8}-{h4}-{h4}-{h4}-{h12}", "model": "qwen3"
run {h8}-{h4}-4{h3}-a{h3}-{h12} resumed from step 400
containerd://{h64} Running
--discovery-token-ca-cert-hash sha256:{h64}
image: data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ
payload=SGVsbG8sIHdvcmxkIQ== (base64 of a greeting)
torch 2.7.1+cpu, torch_npu 2.7.1.post4+git{h7}, CANN 8.5.0.1.220
pytorch-v2.7.1-7.2.0.tar.gz Ascend-cann-toolkit_8.5.0_linux-aarch64.run
Ascend-hdk-910b-npu-driver_25.5.1_linux-aarch64.run Ascend910B3 Ascend910_9391
model.layers.31.self_attn.q_proj.weight torch.Size([4096, 4096]) torch.bfloat16
module.decoder.layers.7.mlp.experts.local_experts.3.linear_fc2._extra_state/shard_0_1.pt
optimizer.state.exp_avg_sq.decoder.final_layernorm.weight
te_general_grouped_gemm_bf16_bf16_fp32_1234567890123456789_high_performance
aclnnFlashAttentionScoreGrad_FlashAttentionScoreGradTilingKey_10000000000022430943
kernel_meta_{d17}/te_matmul_{h64}_1.o
~/ascend/log/debug/plog/plog-4711_20261129070112345.log
[ERROR] HCCL(4711,python3):2026-11-29-07:01:12.345.678 [task_exception_handler.cc:905][4711][TaskExceptionHandler][Callback]Task from HCCL run failed.
[EVENT] PROFILING(4711,python3):2026-11-29-07:01:12.345.678 [msprof_callback_impl.cpp:330] >>> (tid:4711) Started to register profiling ctrl callback.
[INFO] GE(4711,python3):2026-11-29-07:01:12.345.678 [graph_manager.cc:1205]4711 SetRunContext: session id is 0, graph id is 3
[simulated NPU 4711] stream 3 waits for event 12
EI0006: [PID: 4711] 2026-11-29-07:01:12.345.678 Getting socket times out. Reason: Remote Rank did not send the data in time.
EZ9999: Inner Error! rtStreamSynchronize execute failed, reason=[vector core exception][FUNC:FuncErrorReason][FILE:error_message_manage.cc][LINE:53]
errNo[0x000000000500000b] rank[0]-localRank[0] identifier[hccl_world_group] taskType[Notify Wait]
hccl_world_group_{d19}_0 opBaseCommTag AllReduce_hccl_world_group_3
[rank7]:[W1129 07:01:12.345678901 compiler_depend.ts:164] Warning: Device do not support double dtype now
[2026-11-29 07:01:12,345] torch.distributed.run: [WARNING] Setting OMP_NUM_THREADS environment variable for each process to be 1
 iteration        4/    2000 | consumed samples:          512 | learning rate: 1.2E-06 | lm loss: 1.187452E+01 |
throughput per NPU (TFLOP/s/NPU): 212.4 | tokens/s/npu: 1843.2 | number of nan iterations:   0 |
  --tokenizer-name-or-path ./Qwen3-8B --tokenizer-padding-side right --attention-softmax-in-fp32
  --key-padding off --secret-santa-ratio 0.1 --owner-shards 4 --node-count 2 --passes 3
token_type=bos author_count=3 owners: 3 hosts=2 account_mode=on serial=false
owner: rank 3 keeps the shard
committer thread 4 flushed 12 batches
creator of the tensor: autograd node 17
user defined operators: 3; user time 12.4 s; node time 0.3 s
host to device copy 1.2 GB/s, node local rank 0, cluster size 4
name: hccl_test value: 12 key: 4
PRETTY_NAME="openEuler 24.03 (LTS-SP1)" VERSION_ID="24.03"
gcc (GCC) 12.3.1 (openEuler 12.3.1-62.oe2403sp1) 20230907
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
Chip_Name=Ascend910B3 chip_id=0 NPU Count : 8 Product Name : IT21DMDC Model : NA
HBM Capacity(MB) : 65536 Slot ID : 2 Software Version : 25.5.1 Board ID : 0x65
drwxr-xr-x 2 root root 4096 Nov 28 09:10 lib64
0x00007f12a4c8b3d1 in aclrtSynchronizeStreamWithTimeout () from libascendcl.so
Thread 0x0000ffff8a7c1010 (most recent call first): File "pretrain_gpt.py", line 231 in <module>
mean=1.2e-05 std=0.0199 min=-0.0871 max=0.0869 sum=3.14159265358979
curl -fsSL https://example.org/install.sh?version=8.5.0&arch=aarch64 -o install.sh
HCCL_BUFFSIZE=200 HCCL_WHITELIST_DISABLE=1 CPU_AFFINITY_CONF=1 TASK_QUEUE_ENABLE=2
"""
# § is the name, ¶ the value, ‡ the name as an option. Each line is a form, with three variants.
_NAMED = r"""
2026-11-29 07:01:12,345 INFO conf.py:88 § = ¶ (from env) || settings: seed=1, §=¶, epochs=3 || ++ §='¶'
§:\n¶\nfinished || §:\n    - ¶\nfinished || enter §:\n> ¶\nfinished
auth:\n  - §: &main ¶  # rotated || §: !!str "¶"\nfinished: 1 || §: |\n    ¶\nfinished: 1
{\n  "cfg": {\n    "§" : "¶",\n    "count": 1\n  }\n} || {"data": {"§": ["¶"]}, "count": 1} || "{\\"count\\": 1, \\"§\\": \\"¶\\"}"
\x1b[38;5;81m§\x1b[0m\x1b[2m:\x1b[0m \x1b[38;2;9;9;9m¶\x1b[0m done || \x1b[36m"§"\x1b[39m: \x1b[33m'¶'\x1b[39m, done || \x1b[90m§\x1b[0m → \x1b[1;32m¶\x1b[m done
`§`=`¶` done || “§”：“¶” done || § = \"\"\"¶\"\"\" done
https://api.example.org/v2/sync?page=1&§=¶#top || wss://stream.example.org/feed;§=¶?page=1 || https://api.example.org/cb?state=%7B%22§%22%3A%22¶%22%7D
| setting | value |\n| --- | --- |\n| § | ¶ | || stage,region,§\nprod,north,¶ || REGION   §   AGE\nnorth   ¶   old
train.sh -D§=¶ --count 3 || train.sh ‡ ¶ --count 3 || setx § "¶"
Config(rate=1, §='¶', count=2) || <property><name>§</name><value>¶</value></property> || os.environ['§'] = '¶'
"""
_BARE = r"""
2026-11-29 07:01:12,345 INFO uploads use ¶ now || read ¶ from disk || [rank0] ¶ accepted
first line of the file\n¶\nfinished || value below\n\t¶ || opened\n> ¶
- ¶ || value: ¶  # rotated || args: [run, "¶"]
{"data": ["¶", 1]} || {"note": "¶"} || "{\\"note\\": \\"¶\\"}"
\x1b[35m¶\x1b[0m done || \x1b[1mnote\x1b[0m \x1b[38;5;81m¶\x1b[m || note\u200b:\u200b¶
echo '¶' || note=`¶` || “¶” done
https://api.example.org/¶/jobs || https://api.example.org/jobs?note=¶&page=1 || https://api.example.org/cb#¶
| prod | ¶ | north | || prod,¶,north || prod\t¶\tnorth
client --profile prod ¶ || client -n ¶ run || export NOTE="¶"
connect("¶", count=3) || note = '¶'; || <note>¶</note>
"""
# Names and forms that were gathered after the above were learnt from.
_AGAIN = r"""
  finnhub_secret={l20} sendbird_api_token={h40} launchdarkly-sdk-key=sdk-{h8}-{h4}-{h4}-{h4}-{h12} mapboxToken=pk.{a60}
  newRelicInsertKey=NRII-{l32} serviceKey={a32} databasekey={a24} spring.datasource.password=malina{d2}
  vault_role_secret_id={h8}-{h4}-{h4}-{h4}-{h12} smtp_pass=Wolke{d2}sieben jwt-secret={b43} VOLC_SECRETKEY={b40}
  QIANFAN_SK={l32} ZHIPUAI_API_KEY={h32}.{a16} DASHSCOPE_API_KEY=sk-{h32} ansible_vault_password=lila.Berg{d2}
  grafana~admin~password=kolibri{d2} MA_CREDENTIAL={b60} clave=piedra.roja{d2} hasło=zielony{d2} heslo=modra.kniha{d2}
  パスワード=sakura{d3} 비밀번호=hangang{d3} 数据库密碼=yue{d4}liang 访问密钥={a40} 安全码={d6}x registry~token={a40}
  etcd-encryption-key={b43} oauth_client_secret={a32} deploy_key={a44} SNMP_AUTHPASS=nordwind{d2} rootpw=Fichte!{d2}
  observer.serial_number=2102{d6}{u6} source.mac=ac:de:48:{h2}:3f:67 SLURM_JOB_ACCOUNT=brandtlab host.hostname=gz3-train-{d2}
  destination.ip=203.0.113.{d2} chassis_id=ac:de:48:{h2}:3f:01 reporter=mkowalski assigned_to=svensson
  邮箱=zhao.wm@hutong.example 节点名称=kunpeng-b{d2} 联系电话=010-8{d7} 设备序列号=2102{d6}{u6} 负责人=赵伟明
  computerName=LAB-PC{d3} login_name=dnovak SLURM_LAUNCH_NODE=kiefer{d2} client_hostname=eiche-{d2} last_modified_by=eklund
  operator_name=imhof bmc_user=wartung{d2} machine~serial=CN{u10} vpn_username=aberg maintainer_email=a.berg@see.example
  k8s.pod.ip=10.244.{d2}.9 spine_hostname=sp-{d2} 上报人=钱学明
"""
_AGAIN_FORMS = r"""
level=info msg=start §="¶" dur=3ms || ts=7 §=¶ dur=3ms || INFO {§=¶, state=ready}
§:\r\n  ¶\r\nfinished || "§"\n: "¶"\nfinished || § =\n\n    ¶\nfinished
{rate: 1, §: ¶, seed: 3} || ? §\n: ¶ || - §: '¶'
{"count":1,"§":"¶","seed":2} || [{"key":"§","value":"¶"}] || {"§":{"value":"¶"}}
\x1b[33m§=¶\x1b[0m done || \x1b[1m§\x1b[22m \x1b[2m=\x1b[22m ¶ || \x1b[32m+ §: "¶"\x1b[0m
§ = b'¶' done || § = u"¶" done || §: '"¶"'
https://api.example.org/cb#§=¶&state=1 || postgres://db.example.org/runs?§=¶ || https://api.example.org/cb?next=%2Frun%3F§%3D¶
 stage | §\n-------+------\n prod  | ¶ || stage;§;region\nprod;¶;north || ┃ stage ┃ § ┃\n│ prod │ ¶ │
kubectl create secret generic run --from-literal §=¶ || train.py model.rate=1 auth.§=¶ || export §; §=¶ run.sh
dict(§="¶", count=1) || [auth]\n§ = "¶" || Config { §: "¶", count: 1 }
"""
_ESCAPE = re.compile(r"\\(?:n|r|t|x1b|u200b|\\)|\\\"")


class Text(NamedTuple):
    """What has to vanish from a text, which words have to stay, and its form."""

    text: str
    hidden: tuple[str, ...]
    stays: tuple[str, ...]
    form: int


def items() -> dict[str, tuple[Text, ...]]:
    """Every secret and identity in its ten forms."""
    texts: dict[str, tuple[Text, ...]] = {}
    for pair in made(SECRETS + IDENTITIES, random.Random("fresh pairs")).split():
        name, _, value = pair.partition("=")
        texts[pair] = tuple(_written(name.replace("~", " "), value, len(texts), _NAMED))
    for value in made(TOKENS, random.Random("fresh tokens")).split():
        texts[value] = tuple(_written("", value, len(texts), _BARE))
    for text in SECRET_TEXTS + IDENTITY_TEXTS:
        marked = made(text, random.Random(text))
        texts[marked] = tuple(_carried(marked))
    return texts


def again() -> dict[str, tuple[Text, ...]]:
    """Later names in later forms."""
    pairs = made(_AGAIN, random.Random("fresh again")).split()
    return {
        pair: tuple(_written(name.replace("~", " "), value, number, _AGAIN_FORMS))
        for number, pair in enumerate(pairs)
        for name, _, value in [pair.partition("=")]
    }


def _written(name: str, value: str, number: int, forms: str) -> list[Text]:
    option = "--" + re.sub(r"(?<=[a-z])(?=[A-Z])|[ _.]", "-", name).lower()
    texts = []
    for form, line in enumerate(forms.strip().splitlines()):
        variant = line.split(" || ")[(number + form) % 3]
        fill = {"§": name, "¶": value, "‡": option}
        if "%7B" in variant:
            fill = {key: quote(each, safe="") for key, each in fill.items()}
        elif "://" in variant:
            fill = {
                key: quote(each, safe="-._~:@=+" if key == "¶" else "")
                for key, each in fill.items()
            }
        variant = _ESCAPE.sub(lambda match: match[0].encode().decode("unicode_escape"), variant)
        stays = tuple(re.findall("[a-z]{4,}", re.sub("[§¶‡]", " ", variant)))
        text = variant.replace("§", fill["§"]).replace("‡", fill["‡"]).replace("¶", fill["¶"])
        texts.append(Text(text, (value,), stays, form))
    return texts


def _carried(marked: str) -> list[Text]:
    hidden = tuple(
        each for whole in re.findall("«(.*?)»", marked, re.DOTALL) for each in whole.split("\n")
    )
    text = re.sub("[«»]", "", marked)
    lines = text.split("\n")
    carried = (
        text,
        "\n".join(f"2026-11-29 07:01:12,345 INFO {line}" for line in lines) + "\nfinished",
        "notes:\n  finished: |\n" + "\n".join(f"    {line}" for line in lines),
        json.dumps({"count": 1, "finished": text}, ensure_ascii=False),
        "\n".join(f"\x1b[38;5;81m{line}\x1b[0m" for line in lines),
        f"finished {text!r}",
        f"https://paste.example.org/finished?text={quote(text, safe='')}&page=1",
        "\n".join(f"| {number} | {line} | finished |" for number, line in enumerate(lines)),
        f"echo '{text}' >> finished.txt",
        "\n".join(f"+{line}" for line in lines) + "\n finished",
    )
    return [
        Text(each, hidden, ("finished",) if "finished" in each else (), form)
        for form, each in enumerate(carried)
    ]


def healthy() -> list[str]:
    """One text a line, in their order."""
    return made(HEALTHY, random.Random("fresh healthy")).strip("\n").split("\n")


def seen(text: Text, output: str) -> list[str]:
    """What a cleaned text still shows."""
    plain = re.sub("\x1b\\[[0-9;]*m|\u200b", "", output)
    return [each for each in text.hidden if shows(each, plain) or shows(each, unquote(plain))]
