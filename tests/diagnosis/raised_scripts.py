"""Programs with one mistake each: the kind, what the answer has to say, and the script.

`@` is the file and line marked `#!`, `$a` to `$c` are words that differ from case to case.
The kinds follow CPython's exceptions and those of torch and Megatron-LM.
"""

# ruff: noqa: E501 - a program in each line
CONFIG = {"seed": 20261128, "tries": 6}

USER = [
    ("python-syntax", "@", "def $a(x):\n    return x\nprint($a(3)  #!\n$b = 1"),
    ("python-syntax", "@", "$a = 3\nif $a == 3  #!\n    print($a)"),
    ("python-syntax", "@", "$a = {'$b': 1, '$c' 2}  #!"),
    ("python-syntax", "@", "print '$a'  #!"),
    ("python-syntax", "@", "def $a():\n    x = 1\n      y = 2  #!\n$a()"),
    ("python-syntax", "@", "for $a in range(3):\nprint($a)  #!"),
    ("python-syntax", "@", "$a = f'{$b'  #!"),
    ("python-undefined-name", "@ $a_size", "def main():\n    return $a_size * 2  #!\nmain()"),
    ("python-undefined-name", "@ os", "$a = os.environ.get('$b')  #!"),
    ("python-undefined-name", "@ $a", "$a = 1\ndef main():\n    $a += 1  #!\n    return $a\nmain()"),
    ("python-undefined-name", "@ $b", "def main(x):\n    if x:\n        $b = 1\n    return $b  #!\nmain(0)"),
    ("python-missing-file", "@ /data/$a/$b.json", "import json\njson.load(open('/data/$a/$b.json'))  #!"),
    ("python-missing-file", "@ $a.bin", "import os\nprint(os.path.getsize('$a.bin'))  #!"),
    ("python-missing-file", "@ $a/$b", "import os\nfor name in os.listdir('$a/$b'):  #!\n    print(name)"),
    ("python-missing-file", "@ $a-compiler", "import subprocess\nsubprocess.run(['$a-compiler', '-v'])  #!"),
    ("python-permission", "@ $a.ckpt", "import os\nopen('$a.ckpt', 'w').close()\nos.chmod('$a.ckpt', 0)\nos.setuid(65534)\nopen('$a.ckpt')  #!"),
    ("python-permission", "@ /$a-out", "import os\nos.setuid(65534)\nos.makedirs('/$a-out/$b')  #!"),
    ("python-not-a-file", "@ $a", "import os\nos.mkdir('$a')\nopen('$a').read()  #!"),
    ("python-not-a-file", "@ $a", "import os\nopen('$a', 'w').close()\nos.listdir('$a')  #!"),
    ("python-environment-variable", "@ $a_PATH export", "import os\n$a = os.environ['$a_PATH']  #!"),
    ("python-environment-variable", "@ MASTER_$b export", "from os import environ\ndef main():\n    return environ['MASTER_$b']  #!\nmain()"),
    ("python-environment-variable", "@ $c_RANK export", "import os\nr = int(os.environ['$c_RANK'])  #!\nprint(r)"),
    ("python-assertion", "@ $a~%~$b~==~0", "$a, $b = 30, 4\nassert $a % $b == 0, '$c must divide'  #!"),
    ("python-assertion", "@ len($a)", "$a = []\nassert len($a) > 0  #!"),
    ("python-argument", "@ $a $b_size", "def $a(*, $c_size):\n    return $c_size\n$a($b_size=3)  #!"),
    ("python-argument", "@ $a x", "def $a(x, y=1):\n    return x\n$a()  #!"),
    ("python-attribute", "@ $a Model", "class Model:\n    pass\nprint(Model().$a)  #!"),
    ("python-attribute", "@ $a None", "model = None\nmodel.$a()  #!"),
    ("python-missing-module", "@ $a_utils PYTHONPATH", "from $a_utils.$b import $c  #!"),
    ("python-missing-module", "@ $a PYTHONPATH", "from . import $a  #!"),
    ("python-damaged-file", "$a.json", "import json\nopen('$a.json', 'w').write('{\"$b\": [1, 2')\njson.load(open('$a.json'))  #!"),
    ("python-damaged-file", "$a.pkl", "import pickle\nopen('$a.pkl', 'wb').write(pickle.dumps(list(range(999)))[:200])\npickle.load(open('$a.pkl', 'rb'))  #!"),
    ("python-damaged-file", "$a.npz", "import zipfile\nopen('$a.npz', 'wb').write(b'PK' + bytes(99))\nzipfile.ZipFile('$a.npz')  #!"),
    ("python-damaged-file", "$a.gz", "import gzip\nopen('$a.gz', 'wb').write(gzip.compress(bytes(range(256)) * 9)[:60])\ngzip.open('$a.gz').read()  #!"),
    ("python-damaged-file", "$a.txt", "open('$a.txt', 'wb').write(bytes(range(128, 256)))\nprint(open('$a.txt').read())  #!"),
    ("python-exception", "@ ZeroDivisionError", "$a = 3\n$b = 0\nprint($a / $b)  #!"),
    ("python-exception", "@ ValueError", "$a = int('$b')  #!"),
    ("python-exception", "@ KeyError $b", "$a = {}\nprint($a['$b'])  #!"),
    ("python-exception", "@ IndexError", "$a = [1]\nprint($a[4])  #!"),
    ("python-exception", "@ TypeError", "$a = None\nfor x in $a:  #!\n    print(x)"),
    ("python-exception", "@ StopIteration", "$a = iter(())\nnext($a)  #!"),
    ("python-exception", "@ $aFailure", "class $aFailure(Exception):\n    pass\nraise $aFailure('$b')  #!"),
    ("python-exception", "@ NotImplementedError", "def $a():\n    raise NotImplementedError  #!\n$a()"),
    ("python-exception", "@ ConnectionRefusedError", "import socket\nsocket.create_connection(('127.0.0.1', 9))  #!"),
    ("python-exception", "@ FileExistsError", "import os\nos.mkdir('$a')\nos.mkdir('$a')  #!"),
    ("python-exception", "@ RecursionError", "def $a(x):\n    return $a(x + 1)  #!\n$a(0)"),
    ("python-exception", "@ OverflowError", "import math\nmath.exp(10**6)  #!"),
    ("python-exception", "@ UnicodeEncodeError", "'\u4f60'.encode('ascii')  #!"),
    ("python-exception", "@ LookupError $a", "'x'.encode('$a')  #!"),
    ("python-exception", "@ TypeError $a", "class $a:\n    pass\nlen($a())  #!"),
    ("python-attribute", "@ $a dict", "{}.$a  #!"),
    ("python-attribute", "@ json $a", "import json\njson.$a({})  #!"),
    ("python-argument", "@ $a", "class $a:\n    def __init__(self, x):\n        self.x = x\n$a()  #!"),
    ("python-argument", "@ $a $c", "from dataclasses import dataclass\n@dataclass\nclass $a:\n    $b: int\n$a($b=1, $c=2)  #!"),
    ("python-missing-module", "@ $a", "import importlib\nimportlib.import_module('$a.$b')  #!"),
    ("python-import-name", "@ $a json", "from json import $a  #!"),
    ("python-missing-file", "@ $a.so", "import ctypes\nctypes.CDLL('./$a.so')  #!"),
    ("python-damaged-file", "$a.json", "import json, pathlib\npathlib.Path('$a.json').write_text('')\njson.loads(pathlib.Path('$a.json').read_text())  #!"),
    ("python-exception", "@ TimeoutExpired", "import subprocess\nsubprocess.run(['sleep', '9'], timeout=0.1)  #!"),
]  # fmt: skip

_CONFIG = "from megatron.core.transformer.transformer_config import TransformerConfig\n"
LIBRARY = [
    ("python-argument", "@ torch fused_$a AdamW", "import torch\ntorch.optim.AdamW([torch.zeros(1)], fused_$a=True)  #!"),
    ("python-argument", "@ megatron-core $a_flag TransformerConfig", f"{_CONFIG}TransformerConfig(num_layers=2, hidden_size=8, num_attention_heads=2, $a_flag=1)  #!"),
    ("python-argument", "@ click $a", "import click\nclick.Option(['--$b'], $a=1)  #!"),
    ("python-argument", "@ torch Linear out_features", "import torch\ntorch.nn.Linear(3)  #!"),
    ("python-argument", "@ msgspec $a", "import msgspec\nmsgspec.json.decode(b'1', $a=int)  #!"),
    ("python-argument", "@ einops rearrange pattern", "import einops\neinops.rearrange([1])  #!"),
    ("python-attribute", "@ torch $a_mode", "import torch\ntorch.$a_mode()  #!"),
    ("python-attribute", "@ torch $a", "import torch\ntorch.nn.functional.$a(1)  #!"),
    ("python-attribute", "@ megatron-core get_$a_rank", "from megatron.core import parallel_state\nparallel_state.get_$a_rank()  #!"),
    ("python-attribute", "@ torch Linear $a", "import torch\ntorch.nn.Linear(2, 2).$a  #!"),
    ("python-attribute", "@ numpy $a", "import numpy as np\nnp.$a(3)  #!"),
    ("python-import-name", "torch $a @", "from torch.utils.data import $a  #!"),
    ("python-import-name", "megatron-core $a_parallel @", "from megatron.core.parallel_state import $a_parallel  #!"),
    ("python-import-name", "PyYAML $a @", "from yaml import $a  #!"),
    ("python-missing-module", "megatron-core megatron.core.$a @", "import megatron.core.$a  #!"),
    ("python-missing-module", "torch torch.$a @", "from torch.$a.$b import $c  #!"),
    ("python-cuda", "@ npu", "import torch\nx = torch.zeros(2).cuda()  #!"),
    ("python-cuda", "@ npu", "import torch\nx = torch.zeros(2, device='cuda:0')  #!"),
    ("python-cuda", "@ npu", "import torch\ntorch.cuda.set_device(0)  #!"),
    ("python-assertion|megatron-groups-not-initialized", "@ megatron-core", "from megatron.core import parallel_state\nparallel_state.get_tensor_model_parallel_group()  #!"),
    ("python-damaged-file", "$a.pt", "import torch\nopen('$a.pt', 'wb').write(b'PK\\x03\\x04' + bytes(99))\ntorch.load('$a.pt')  #!"),
    ("python-damaged-file", "$a.pt", "import torch\ntorch.save({'x': torch.zeros(99)}, '$a.pt')\ndata = open('$a.pt', 'rb').read()\nopen('$a.pt', 'wb').write(data[:700])\ntorch.load('$a.pt')  #!"),
    ("python-damaged-file", "$a.pt", "import torch\nopen('$a.pt', 'wb').close()\ntorch.load('$a.pt')  #!"),
    ("python-damaged-file", "$a.yaml", "import yaml\nopen('$a.yaml', 'w').write('$b: [1, 2\\n$c: }')\nyaml.safe_load(open('$a.yaml'))  #!"),
    ("python-missing-file", "@ $a.pt", "import torch\ntorch.load('$a.pt')  #!"),
    ("python-missing-file", "@ $a.npy", "import numpy as np\nnp.load('$a.npy')  #!"),
    ("python-environment-variable", "@ RANK export", "import torch.distributed as dist\ndist.init_process_group('gloo')  #!"),
    ("python-exception", "@ RuntimeError torch", "import torch\ntorch.zeros(2, 3) @ torch.zeros(2, 3)  #!"),
    ("python-exception", "@ RuntimeError torch", "import torch\ntorch.nn.Linear(2, 3)(torch.zeros(4, 5))  #!"),
    ("python-exception", "@ RuntimeError torch", "import torch\nm = torch.nn.Linear(2, 3)\nm.load_state_dict({'weight': torch.zeros(9, 9)})  #!"),
    ("python-exception|megatron-heads-divisible", "@ ValueError megatron-core", f"{_CONFIG}TransformerConfig(num_layers=2, hidden_size=8, num_attention_heads=3, tensor_model_parallel_size=2)  #!"),
    ("python-exception", "@ ValueError numpy", "import numpy as np\nnp.zeros(3).reshape(2, 2)  #!"),
    ("python-exception", "@ EinopsError einops", "import einops, numpy\neinops.rearrange(numpy.zeros(3), 'a b -> b a')  #!"),
    ("python-exception", "@ ValidationError msgspec", "import msgspec\nmsgspec.json.decode(b'1', type=str)  #!"),
    ("python-exception", "@ UndefinedError Jinja2", "import jinja2\njinja2.Template('{{ $a.$b }}').render()  #!"),
]  # fmt: skip

_OPEN = "open('/data/$a.json')"
WRAPPERS = [
    ("python-missing-file", "@ /data/$a.json", f"def load():\n    try:\n        {_OPEN}  #!\n    except OSError as error:\n        raise RuntimeError('no $b') from error\nload()"),
    ("python-missing-file", "@ /data/$a.json", f"try:\n    {_OPEN}  #!\nexcept OSError as error:\n    error.add_note('needed for $b')\n    raise"),
    ("python-missing-file", "@ /data/$a.json", f"def work():\n    {_OPEN}  #!\ntry:\n    work()\nexcept OSError as error:\n    raise ExceptionGroup('$b', [error, ValueError('$c')])"),
    ("python-missing-file", "@ /data/$a.json", f"import concurrent.futures as f\ndef work(x):\n    {_OPEN}  #!\nwith f.ProcessPoolExecutor(2) as pool:\n    list(pool.map(work, [1, 2]))"),
    ("python-missing-file", "@ /data/$a.json", f"import logging, sys\nlogging.basicConfig(format='%(asctime)s %(levelname)s %(name)s: %(message)s')\ntry:\n    {_OPEN}  #!\nexcept OSError:\n    logging.exception('$b failed')\n    sys.exit(1)"),
    ("python-undefined-name", "@ $a", "import pytest, sys\ndef test_$b():\n    assert $a == 1  #!\nif __name__ == '__main__':\n    sys.exit(pytest.main([__file__, '-p', 'no:cacheprovider']))"),
    ("python-attribute", "@ $a Model", "import threading, os\nclass Model: pass\ndef work():\n    Model().$a  #!\nt = threading.Thread(target=work)\nt.start()\nt.join()\nos._exit(1)"),
    ("python-argument", "@ $a $b", "import asyncio\nasync def $a():\n    pass\nasync def main():\n    await $a($b=1)  #!\nasyncio.run(main())"),
    ("python-exception", "@ ValueError $a", "try:\n    {}['$b']\nexcept KeyError:\n    raise ValueError('$a is not a known model')  #!"),
    ("python-undefined-name", "@ $c", "import torch.multiprocessing as mp\ndef work(rank):\n    print($c)  #!\nif __name__ == '__main__':\n    mp.spawn(work, nprocs=2)"),
]  # fmt: skip

_START = "import os, torch, torch.distributed as dist\ndist.init_process_group('gloo')\nrank = dist.get_rank()\n"
_BODIES = [
    ("python-missing-module", "@ $a_kernels", "import $a_kernels  #!"),
    ("python-undefined-name", "@ $a_size", "print($a_size)  #!"),
    ("python-missing-file", "@ /data/$a.bin", "open('/data/$a.bin', 'rb')  #!"),
    ("python-environment-variable", "@ $a_DIR export", "print(os.environ['$a_DIR'])  #!"),
    ("python-assertion", "@ rank~<~0", "assert rank < 0, '$a on rank {}'.format(rank)  #!"),
    ("python-argument", "@ torch $a AdamW", "torch.optim.AdamW([torch.zeros(1)], $a=True)  #!"),
    ("python-attribute", "@ torch $a", "torch.distributed.$a()  #!"),
    ("python-cuda", "@ npu", "torch.zeros(1).cuda()  #!"),
    ("python-damaged-file", "$a.pt", "path = f'{rank}-$a.pt'\nopen(path, 'wb').write(b'PK\\x03\\x04' + bytes(99))\ntorch.load(path)  #!"),
    ("python-exception", "@ RuntimeError torch", "torch.zeros(2, 3) @ torch.zeros(2, 3)  #!"),
    ("python-exception", "@ ZeroDivisionError", "print(1 / (rank - rank))  #!"),
    ("python-import-name", "@ torch $a", "from torch.utils.data import $a  #!"),
]  # fmt: skip


def _on_one(body: str) -> str:
    rows = "".join(f"    {row}\n" for row in body.split("\n"))
    return f"if rank == 2:\n{rows}dist.barrier()"


DISTRIBUTED = [
    *((kind, says, f"{_START}{body}") for kind, says, body in _BODIES),
    *((kind, says, f"{_START}{_on_one(body)}") for kind, says, body in _BODIES),
    *((kind, says, template) for kind, says, template in USER[:6]),
]
