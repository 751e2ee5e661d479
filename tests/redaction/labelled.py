"""Names with values, and lines: labelled before the first run against the patterns.

{a20} is made anew as in hidden.yaml; "«…»" of a line must vanish.
"""

# ruff: noqa: E501
PAIRS = {
    "secrets": r"""
  DB_PASS=Sesamoeffne FTP_PASS=tuesdayrain SMTP_PASSWD=hor5e.st4ple PGPASSWORD=kiwi-mango-7
  ROOT_PW=Lorbeer!22 ADMIN_PWD=gr8-Fjord MYSQL_ROOT_PASSWORD=winterwind OS_PASSWORD=Regen{a6}
  JENKINS_PAT={h34} AZURE_DEVOPS_EXT_PAT={a52} GITEA_PAT={h40} CI_JOB_TOKEN={a20}
  MODELARTS_TOKEN=MII{b60} HF_TOKEN=hf_{a34} WANDB_API_KEY={h40} SWANLAB_API_KEY={a21}
  OPENI_TOKEN={h40} DINGTALK_SECRET=SEC{h64} FEISHU_APP_SECRET={a32} WECOM_BOT_KEY={h8}-{h4}-{h12}
  HUAWEICLOUD_SDK_SK={a40} HUAWEICLOUD_SDK_AK={u20} OBS_SECRET_ACCESS_KEY={a40} S3_SECRET_KEY={a24}
  AWS_SESSION_TOKEN={b100} MINIO_ROOT_PASSWORD=miniature REDIS_AUTH=r3d{a9} LDAP_BIND_PW=birnbaum
  RABBITMQ_DEFAULT_PASS=hasenohr KAFKA_SASL_PASSWORD=str3am{a4} KRB5_PASSPHRASE=alte-linde-am-see
  JWT_SIGNING_KEY={b43} SESSION_SECRET={h64} ENCRYPTION_KEY={b44} VAULT_TOKEN=hvs.{a90}
  CONSUL_HTTP_TOKEN={h8}-{h4}-{h4}-{h4}-{h12} NOMAD_TOKEN={h8}-{h4}-{h4}-{h4}-{h12}
  GRAFANA_SA_TOKEN=glsa_{a32}_{h8} DATADOG_APP_KEY={h40} SENTRY_AUTH_TOKEN=sntrys_{a60}
  SONAR_TOKEN=sqp_{h40} NEXUS_PASS=n3xt{a5} ARTIFACTORY_API_KEY=AKC{a70} HARBOR_ROBOT_SECRET={a32}
  IPMI_PASSWORD=calvados BMC_PASSWD=Admin@9{d4} RADIUS_SHARED_SECRET=sharedpear
  TELEGRAM_BOT_TOKEN={d10}:AA{a33} SLACK_SIGNING_SECRET={h32} COMET_API_KEY={a25}
  MLFLOW_TRACKING_PASSWORD=trackme CLEARML_API_SECRET_KEY={a50} NEPTUNE_API_TOKEN=eyJ{a120}
  LABEL_STUDIO_TOKEN={h40} RAY_AUTH_TOKEN={h32} JUPYTER_TOKEN={h48} RUNNER_REGISTRATION_TOKEN={a29}
  TF_VAR_db_password=terra{a6} SPRING_DATASOURCE_PASSWORD=fruehling dbPassword=kellertuer
  clientSecret={a40} apiToken={h32} accessToken={a60} refresh_token={a90} id_token=eyJ{a30}.{a40}.{a43}
  privateKeyPassphrase=vier-graue-katzen x_api_key={a40} secretAccessKey={a40} userPassword=sommer{d2}
  authToken={h36} webhookSecret={a24} storageAccountKey={b86} registry_password=hafen{a5}
  note=ghp_{a36} item=github_pat_{a22}_{a59} entry=glpat-{a20} ref=xoxb-{d12}-{d12}-{a24}
  remark=AKIA{u16} memo=hf_{a34} field=sk-proj-{a48} thing=npm_{a36} tag=pypi-AgEIcHlwaS5vcmc{a60}
  text=dckr_pat_{a27} extra=AIza{a35} blob=eyJ{a30}.eyJ{a60}.{a43} datum=glsa_{a32}_{h8}
  arg=sk-ant-api03-{a93}AA row=r8_{a37} cell=gsk_{a52} col=tvly-dev-{a32} model=nvapi-{a64}
  list=lin_api_{a40} page=ntn_{d11}{a35} draw=figd_{a40} plan=pscale_tkn_{a43} hook=whsec_{a32}
  base=sbp_{h40} site=nfp_{a36} relic=NRAK-{u27} content=CFPAT-{a43} cloud=LTAI{a20} cos=AKID{a32}
""",
    "identities": r"""
  HOSTNAME=gzlab-a17 NODE_NAME=cn-rack3-08 hostName=brunnen nodeName=walnut04 MASTER_ADDR=mgmt07
  SLURMD_NODENAME=kiefer12 SLURM_SUBMIT_HOST=tor-eins POD_IP=172.20.14.9 HOST_IP=192.168.44.21
  HCCL_IF_IP=10.77.3.8 server_ip=81.70.12.5 device_ip=29.40.7.3 peer=2409:8c54:871:34::1b
  gateway=10.77.3.1 USER=qlin88 LOGNAME=tvogel SUDO_USER=hfang username=mrossi user_name=k.tanaka
  owner_email=w.sun@hutong-ai.cn mail=petra.k@example-lab.de employee_id=00{d6} emp_no=w{d8}
  工号=l00{d6} staffId=z{d8} employeeNumber={d8} mac_addr=9c:52:f8:0a:7d:e1 hwaddr=48-57-02-be-1c-9a
  serial_number=2102313{u9} SerialNumber=ZK{d10} node_guid=b8ce:f603:00ab:19f2 login_user=anovak
  NODE_IP=11.9.8.7 master_ip=10.4.0.77 bindAddress=10.8.0.31
""",
    "stays": r"""
  MAX_TOKENS=4096 pad_token_id=151643 eos_token=<|im_end|> TOKENIZER_PATH=/data/tok/qwen
  tokenizer=Qwen/Qwen3-8B num_key_value_heads=8 key_padding_mask=None sort_key=iteration PASSED=118
  bypass=off COMPASS_VERSION=1.4.2 monkey=banana public_exponent=65537 HCCL_ALGO=ring
  hostfile=hosts.txt HOST_ARCH=aarch64 node_rank=3 nnodes=4 user_agent=pip/24.1 use_auth=true
  keyword=attention commit={h40} digest=sha256:{h64} version=8.5.0.1 shape=(4,4096,128)
  token_dispatcher=alltoall key_size=128 auth_type=basic secret_count=0 password_file=/etc/db.pwd
  TOKEN_BUDGET=2048 tokens_per_second=10234.5 pad_token=<|endoftext|> token_type_ids=0 user=root
  firmware=7.8.0.6.201 driver=25.5.1.2 status=StatusCode.INTERNAL backend=hccl passthrough=1
""",
}
LINES = (
    "«gzlab-a17»:48121:48533 [3] NCCL INFO Bootstrap : Using eth0:«10.77.3.8»<0>",
    "«walnut04»:2211:2290 [0] NCCL WARN Connect to «10.77.3.9»<52341> failed : Connection refused",
    "[INIT] tag[«10.77.3.8»%eth0_60000_0_1732790000000000] rank[2] nic[«29.40.7.3»]",
    "tag[«29.40.7.3»%eth0_30000_0_1732790912001234]; group[hccl_world_group]",
    "RdmaConnect localIp[«29.40.7.3»] remoteIp[«29.40.7.4»] port[16666] timeout[120 s]",
    "[c10d] The client socket has failed to connect to [«walnut04.hpc.uni-see.de»]:29500 (errno: 110).",
    "[c10d] connecting to [«2409:8c54:871:34::1b»]:29500",
    "[c10d] The server socket has failed to bind to [::ffff:«10.77.3.8»]:29500",
    "TCPStore(«kiefer12»:29500) rank 3 failed",
    "[W socket.cpp:697] [c10d] The client socket cannot be initialized to connect to [«kiefer12»]:29501",
    "Gloo connectFullMesh failed with [../pair.cc:144] no error, remote=[«10.77.3.9»]:34211",
    "HcclCommInitRootInfo hostname[«gzlab-a17»] devicePhyId[3]",
    "server_id=«10.77.3.8» device_id=3 rank_id=11",
    "'server_id': '«10.77.3.8»', 'server_count': '2'",
    "«qlin88»@«gzlab-a17»:/data/run$ bash train.sh",
    "ssh -p 2222 «tvogel»@«kiefer12» nvidia-smi",
    "工号: «l00451877» submitted job 9981",
    "employee id «00318842» owns the queue",
    "Authorization: Bearer «{a48}»",
    "curl -H 'X-Auth-Token: «MII{b80}»' https://obs.example.net/bucket",
    "git clone https://ci-bot:«{a20}»@git.example.net/group/repo.git",
    "http_proxy=http://proxyuser:«kastanie»@10.9.9.9:3128",
)
# Healthy log lines and words that must stay byte for byte.
CALM = (
    "StatusCode.INTERNAL StatusCode.UNAVAILABLE StatusCode.DEADLINE_EXCEEDED grpc_status:13",
    "details = 'Socket closed', debug_error_string = 'UNKNOWN:Error received from peer'",
    "open('/opt/x') and ls '/opt/x y' \"/opt/z\" /opt/.cache/pip",
    "HEAD is now at {h40} Merge branch 'core_r0.15.3' into dev",
    "commit {h40}\ntree {h40}\nparent {h40}",
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_aarch64.whl --hash=sha256:{h64}",
    'sha256:{h64} md5={h32} blake2b {h32} etag W/"{h32}" crc32 {h8}',
    "Successfully built apex-0.1 wheel sha256={h64} size 184412",
    "torch.Size([4, 4096, 128]) torch.bfloat16 npu:3 stride=(524288, 128, 1) 4x4096x128",
    "Tensor tag weight_grad tag[AllReduce_3_0] tag=hccl_world_group tag: v2.3.0-rc1 tag_name release-8.5",
    "iteration 120/ 5000 | consumed samples: 15360 | elapsed time per iteration (ms): 812.4 | loss scale: 1.0 |",
    "| token throughput: 10234.5 | tokens per second per NPU 812 | global batch size: 128 | grad norm: 1.204 |",
    "pad_token_id=151643 eos_token_id=[151645, 151643] bos_token=None unk_token='<unk>' mask_token",
    "tokenizer_config.json special_tokens_map.json added_tokens.json vocab_size 151936 merges.txt",
    "num_key_value_heads: 8\nkey_value_dim: 128\nkey_states.shape\nquery_key_value.weight",
    'Missing key(s) in state_dict: "model.layers.0.self_attn.k_proj.bias", "lm_head.weight".',
    "Unexpected key(s) in state_dict: \"rotary_emb.inv_freq\". KeyError: 'decoder.layers.0'",
    "<All keys matched successfully>\npasses: 12\npassed 118, failed 0\nforward pass: 12.4 ms",
    "bypassing sigma generator check\nCompass 1.4.2\npassthrough mode on\nbypass=1",
    "/opt/.local/lib/python3.11/site-packages/torch/_tensor.py:570: UserWarning: deprecated",
    "user warning: deprecated\nuser code: 0\nuser defined ops found: 3",
    "0x7f3a9c0012e0 0xdeadbeef 00:1f.6 0000:c1:00.0 0000:81:00.0 d801:19e5",
    "a1:b2 c3d4e5f6 ab-cd-ef 12:34:56 12:34:56.789 2026-11-28 10:11:12,345 2026-11-28-10:11:12",
    "[ERROR] HCCL(4121,python):2026-11-28-10:11:12.123.456 [hccl_comm.cc:120][4121][Init]errNo[0x0000000005000001]",
    "[INFO] RUNTIME(4121,python3.11):2026-11-28-10:11:12.123.456 [runtime.cc:4720] 4121 Init: stream_id=3",
    "localhost:4121 127.0.0.1:29500 0.0.0.0:8080 ::1 [::]:29500 255.255.255.0 node-rank 3",
    "master_port=29500 MASTER_PORT: 29500 NNODES=4 NODE_RANK=0 LOCAL_RANK=3 WORLD_SIZE=32 host rank host ip",
    "CANN 8.5.0.1.220 driver 25.5.1.2 firmware 7.8.0.6.201 Version=8.5.0.1 torch_npu 2.7.1.post1 v0.15.3",
    "nvidia-cublas-cu12 12.1.3.1; grpcio==1.62.1.0; python 3.11.9.1 toolkit 12.4.1.0",
    "c10::Error std::bad_alloc at::native::add c10d::ProcessGroupHCCL::WorkHCCL torch::autograd::Engine",
    "_ZN3c105ErrorC2ENS_14SourceLocationESs+0x68 (0x7f3a9c0012e0 in libc10.so)",
    "frame #3: <unknown function> + 0x4f2b8 (0x7f3a9c0012e0 in /usr/lib64/libhccl.so)",
    "key: value\nname: trainer\nvalue: 3\nname: learning-rate\nvalue: 0.0001",
    '- name: OMP_NUM_THREADS\n  value: "8"\n- name: HCCL_CONNECT_TIMEOUT\n  value: "1800"',
    '- name: MASTER_PORT\n  value: "29500"\n- name: ASCEND_RT_VISIBLE_DEVICES\n  value: 0,1,2,3',
    '- name: TOKENIZERS_PARALLELISM\n  value: "false"\n- name: MAX_TOKENS\n  value: "4096"',
    '{"name": "sort_key", "value": "iteration"} {"key": "epoch", "value": 3}',
    "secretKeyRef:\n  name: wandb-secret\n  key: api-key\nimagePullSecrets:\n  - name: regcred",
    "Password:\n[sudo] password for root: \nEnter passphrase for key '/opt/.ssh/id_ed25519': ",
    'password: ""\npassword: null\ntoken: ${HF_TOKEN}\napi_key: $(cat key.txt)\nsecret: <none>',
    "HF_TOKEN is not set\nno token found\ntoken expired\ninvalid token\nWANDB_API_KEY not configured",
    "Set HF_TOKEN to log in\nexport HF_TOKEN=\nexport HF_TOKEN=$TOKEN\nHF_TOKEN=<your token>",
    "--token-dispatcher-type alltoall --tokenizer-type HuggingFaceTokenizer --max-tokens-to-oom 12000",
    "--key-value-heads 8 --num-query-groups 8 --kv-channels 128 --use-auth --pass-through on --hostfile hosts",
    "moe_token_dispatcher_type ....................... alltoall\nmoe_token_drop_policy ........................... probs",
    "tokenizer_model ................................. None\nkey_value_channels .............................. 128",
    "host arch aarch64; host memory 1.5 TiB; hosts: 4; Host memory used; node 3 of 4; nodes=4; worker-node",
    "HostBoundException host_device_sync host2device Hostname check on; hostname: localhost; node: null",
    "\x1b[32mINFO\x1b[0m \x1b[1mepoch\x1b[0m=\x1b[33m3\x1b[0m loss\u200b=2.31 \x1b[31mERROR\x1b[0m\r\n 12%|█▏        | 3/25",
    "Downloading model-00001-of-00004.safetensors: 100%|██████| 4.98G/4.98G [00:41<00:00, 120MB/s]\r",
    "wandb: Run data is saved locally in /data/run/wandb/run-20261128_101112-{a8}",
    "job-id j-7f3a9c00 run_id={h8} uuid {h8}-{h4}-{h4}-{h4}-{h12} pod/trainer-0 containerd://{h64}",
    'grpc_message:"failed to connect" status:14 auth error none; unauthorized; authorize; author; authentic',
    "Authentication: none\nauth: disabled\nauth_type=basic\nWWW-Authenticate: Basic realm=x\nAuthorization required",
    "https://gitee.com/ascend/MindSpeed.git https://github.com/NVIDIA/Megatron-LM?ref=core_r0.15.3&page=2",
    "git@gitee.com:ascend/pytorch.git docker://registry/ascend:8.5.0@sha256:{h64} pip@24.1 node@18.2.0",
    "decorated @torch.no_grad() @functools.wraps(fn) @dataclass user@ @property a@b matmul a @ b",
    "secretary keynote keyboard monkey turkey hockey Passau compass token-wise tokenwise hotkey keyed keys",
    "sk-learn scikit-learn sk_buff ms-swift hf-mirror hf_olmo gl-matrix npm_config npm run build",
    'level=INFO ts=2026-11-28T10:11:12Z caller=main.go:12 msg="started" key=epoch value=3 host=localhost',
    "A3-SuperPod-384-nodes-run1 xai-org/grok-2-weights-v1.5 local-rendezvousbackend dp.module.layers.0.weight",
    "SG.blocks.10.attention.weight hf_transfer_enabled_v1 npm_config_cache_dir1 sk-learn-1.5",
    "ms-swift-3.12.0 gsk_module_layers_0 fw_bw_pass_overlap_step1 dapi_version_2024_10_01_preview",
    "host: NODE to SERVER_NAME USER=root username: xxx /home/miniconda3/bin/python password=ssl_keyfile_password",
    "MaxPoolGradWithArgmaxV180 at 1654NHRAllReduceComm token: Latency---------------- ms",
)
