"""Hostile surroundings of a level 0: what a shell does around it, and how it may end.

In a script ``$D`` is the doctor, ``$Q`` the options of a quick check. ``tool`` makes an npu-smi,
``lock`` prints the lock of a stack of one checkout, with replacements, ``repository`` makes one to
fetch from, ``row`` writes a known failure.
``same`` stands for the exit code that the check has here without anything hostile.
"""

from typing import NamedTuple

SAME = -1
ENDED = 130
USAGE, UNKNOWN = 2, 3


class Row(NamedTuple):
    """``then`` is a shell test that must succeed afterwards; ``fast`` rows always run."""

    name: str
    script: str
    codes: tuple[int, ...] = (SAME,)
    then: str = "true"
    fast: bool = False
    root: bool = False


FUNCTIONS = r"""
tool() { printf '#!/bin/sh\n%s\n' "$1" >bin/npu-smi; chmod +x bin/npu-smi; }
row() {
  mkdir -p o/failures
  printf '{schema: 1, failures: [{id: own, title: %s, severity: fatal, matches: [own error],
    example: own error 7, basis: log, cause: c, fix: f, sources: ["https://example.org"]}]}' "$1" \
    >o/failures/own.yaml
  touch -d @1700000000 o/failures/own.yaml
}
lock() { "$PY" - "$@" <<'END'
import platform, sys
text = f'''schema: 1
tool_version: 0.1.0
id: core_v0.15.3-0123456789
created_at: "2026-11-21T00:00:00+00:00"
wish: {{megatron: 0.15.3}}
python:
  version: {platform.python_version()}
  tag: cp{sys.version_info[0]}{sys.version_info[1]}
  arch: {platform.machine()}
checkouts:
- name: megatron-lm
  version: core_v0.15.3
  ref: core_v0.15.3
  commit: {"a" * 40}
  tree: {"b" * 40}
  url: URL
  provides: {{megatron-core: 0.15.3}}
wheels: []
settings: []
pythonpath: [src/megatron-lm]
rows: {{}}
'''
for old, new in zip(sys.argv[1::2], sys.argv[2::2]):
    assert old in text
    text = text.replace(old, new)
print(text, end="")
END
}
trap_programs() {
  for name in npu-smi hccn_tool upgrade-tool lspci git python3 python; do
    printf '#!/bin/sh\ntouch "%s/ran"\n' "$PWD" >"$1/$name"; chmod 755 "$1/$name"
  done
}
repository() {
  git init -q r && git -C r -c user.name=x -c user.email=x@y commit -q --allow-empty -m x
}
"""

NESTED = "$PY -c 'print(\"[\" * 100000)'"
NESTED_MAPS = '$PY -c \'print("{\\"a\\":" * 100000)\''
# Each line has ten times the values of the last.
BOMB = (
    "$PY -c '"
    'print("a0: &a0 {x: 1}"); '
    '[print(f"a{n}: &a{n} {{<<: [" + ",".join([f"*a{n-1}"] * 9) + "]}")'
    " for n in range(1, 12)]'"
)

TOOLS = (
    Row("npu-smi hangs", "tool 'sleep 600'; $D check $Q --timeout 2", (1, 3), fast=True),
    Row(
        "npu-smi ignores SIGTERM",
        "tool 'trap \"\" TERM; sleep 600'; $D check $Q --timeout 2",
        (1, 3),
    ),
    Row(
        "npu-smi leaves a daemon on its pipes",
        "tool 'setsid sleep 600 & exit 0'; $D check $Q",
        fast=True,
    ),
    Row(
        "npu-smi leaves a daemon that closed them",
        "tool 'setsid sleep 600 >/dev/null 2>&1 </dev/null & exit 0'; $D check $Q",
    ),
    Row("npu-smi floods", "tool 'yes'; $D check $Q --timeout 30", (SAME, 1, 3)),
    Row("npu-smi floods standard error", "tool 'yes >&2'; $D check $Q --timeout 30", (SAME, 1, 3)),
    Row("npu-smi writes no UTF-8", "tool 'printf \"\\377\\376|\\200\"'; $D check $Q", (SAME, 1, 3)),
    Row(
        "npu-smi writes to the terminal",
        "tool 'printf \"| NPU \\033[2J\\033]0;x\\007 |\\n\"'; $D check $Q >out; c=$?; exit $c",
        (SAME, 1, 3),
        "! grep -q $'\\033' out",
    ),
    Row("npu-smi ends by a signal", "tool 'kill -SEGV $$'; $D check $Q", (SAME, 1, 3)),
    Row("npu-smi is a folder", "mkdir bin/npu-smi; $D check $Q"),
    Row("npu-smi is a pipe", "mkfifo bin/npu-smi; $D check $Q", fast=True),
    Row(
        "npu-smi is no program",
        "echo x >bin/npu-smi; chmod +x bin/npu-smi; $D check $Q",
        (SAME, 1, 3),
    ),
    Row("npu-smi is a link to nowhere", "ln -s /nowhere bin/npu-smi; $D check $Q"),
    Row("no PATH", "PATH= $D check $Q"),
    Row("a PATH of a thousand folders", "PATH=$PATH$(printf ':/x%.0s' $(seq 1000)) $D check $Q"),
    Row(
        "a pipe in PATH and in the loader's path",
        "mkfifo p; PATH=$PWD/p:$PATH LD_LIBRARY_PATH=$PWD/p $D check $Q",
    ),
)

# Programs named as tools lie where PATH should not lead; each would leave the file `ran`.
_SHAPES = (".:$PATH", ":$PATH", "$PATH:", "/nowhere::$PATH", "./:$PATH", "f:$PATH", "f/../f:$PATH")
_FOREIGN = {
    "a folder of another user": "chown 65534 f",
    "a folder that everybody can write": "chmod 777 f",
    "a folder in one that everybody can write": "mkdir w; mv f w; chmod 777 w; ln -s w/f f",
    "a link of another user": "mv f g; ln -s g f; chown -h 65534 f",
    "programs of another user": "chown 65534 f/*",
    "programs that everybody can write": "chmod 777 f/*",
    "links to programs of another user": "mv f g; chown 65534 g; mkdir f; ln -s ../g/* f/",
}
SEARCHED = (
    *(
        Row(
            f"PATH is {shape}",
            "mkdir f; trap_programs .; trap_programs f;"
            f" PATH={shape} $D check -l 0 -q; PATH={shape} $D check $Q",
            then="! test -e ran",
            fast=shape.startswith("."),
        )
        for shape in _SHAPES
    ),
    *(
        Row(
            f"PATH begins with {name}",
            f"mkdir f; trap_programs f; {words};"
            " PATH=$PWD/f:$PATH $D check -l 0 -q; PATH=$PWD/f:$PATH $D check $Q",
            then="! test -e ran",
            root=True,
            fast=name == "a folder of another user",
        )
        for name, words in _FOREIGN.items()
    ),
)

LIMITS = (
    Row("12 descriptors", "ulimit -n 12; $D check $Q", (SAME, 1, 2, 3), fast=True),
    Row("6 descriptors", "ulimit -n 6; $D check $Q", (UNKNOWN,)),
    Row("5 descriptors", "ulimit -n 5; $D check $Q", (UNKNOWN,), fast=True),
    Row("no texts of functions", "PYTHONOPTIMIZE=2 $PY -m ascend_doctor check $Q", fast=True),
    Row("400 MB of addresses", "ulimit -v 400000; $D check $Q", (SAME, 1, 3)),
    Row(
        "no byte may be written",
        "ulimit -f 0; $D check $Q -o r.json --format json",
        (2, 3),
        "! test -s r.json",
    ),
    Row("a small stack", "ulimit -s 256; $D check $Q", (SAME, 1, 3)),
    Row("no locked memory", "ulimit -l 0; $D check $Q"),
)

OUTPUTS = (
    Row("standard output closed", "$D check $Q >&-", fast=True),
    Row("standard error closed", "$D check $Q 2>&-"),
    Row("all three closed", "$D check $Q >&- 2>&- <&-", fast=True),
    Row(
        "all closed, a file wanted",
        "$D check $Q -o r.json --format json >&- 2>&- <&-",
        then="head -c1 r.json | grep -q '{'",
    ),
    Row("standard output full", "$D check $Q >/dev/full", (USAGE,), fast=True),
    Row("standard error full", "$D check -l 0 --python $PY 2>/dev/full"),
    Row("a full list", "$D list >/dev/full", (USAGE,)),
    Row("a reader that leaves", "set -o pipefail; $D list | true", (0,), fast=True),
    Row("a reader of a report that leaves", "set -o pipefail; $D check $Q --format json | true"),
    Row("a file in /dev/full", "$D check $Q -o /dev/full --format json", (USAGE,)),
    Row(
        "a file in /dev/null",
        "$D check $Q -o /dev/null --format json",
        then="test -c /dev/null",
        fast=True,
    ),
    Row(
        "a file in /dev/stdout",
        "$D check $Q -o /dev/stdout --format json >out",
        then="head -c1 out | grep -q '{' && test -L /dev/stdout",
    ),
    Row(
        "a device of one's own",
        "mknod null c 1 3; $D check $Q -o null --format json",
        then="test -c null",
        root=True,
        fast=True,
    ),
    Row(
        "a pipe that nobody reads",
        "mkfifo p; $D check $Q -o p --format json",
        (USAGE,),
        "test -p p",
    ),
    Row("a file that is a folder", "mkdir d; $D check $Q -o d --format json", (USAGE,)),
    Row("a file in no folder", "$D check $Q -o none/r.json --format json", (USAGE,)),
    Row(
        "a link",
        "echo >t; ln -s t l; $D check $Q -o l --format json",
        then="test -L l && head -c1 t | grep -q '{'",
        fast=True,
    ),
    Row(
        "a link to nothing yet",
        "ln -s t l; $D check $Q -o l --format json",
        then="test -L l && test -s t",
    ),
    Row("links in a ring", "ln -s a b; ln -s b a; $D check $Q -o a --format json", (USAGE,)),
    Row(
        "a second name",
        "echo >t; ln t h; $D check $Q -o h --format json",
        then="cmp t h && test -s t",
    ),
    Row(
        "a mode",
        "echo >t; chmod 600 t; $D check $Q -o t --format json",
        then="test $(stat -c %a t) = 600",
    ),
    Row(
        "another's owner",
        "echo >t; chown 12345:54321 t; $D check $Q -o t --format json",
        then="test $(stat -c %u:%g t) = 12345:54321",
        root=True,
    ),
    Row(
        "a link that another planted",
        "mkdir -m 1777 s; echo mine >t; ln -s $PWD/t s/r; chown -h 12345 s/r;"
        "$D check $Q -o s/r --format json",
        (USAGE,),
        "grep -q mine t",
        root=True,
        fast=True,
    ),
)

FOLDERS = (
    Row("no HOME", "env -u HOME $D check $Q"),
    Row("a HOME that is not there", "HOME=$PWD/not/there $D check $Q", then="! test -e not"),
    Row("a HOME that is a device", "HOME=/dev/null $D check $Q"),
    Row("a relative HOME", "HOME=home $D check $Q", then="! test -e home/.cache"),
    Row("a cache that is a file", "touch c; XDG_CACHE_HOME=$PWD/c $D check $Q"),
    Row(
        "a cache full of noise",
        "$D check $Q >/dev/null; for f in $(find $HOME -name '*.msgpack'); do echo noise >$f; done;"
        "$D check $Q",
    ),
    Row(
        "a cache of another owner",
        "$D check $Q >/dev/null; chown -R 12345 $HOME/.cache; date >stamp; $D check $Q",
        then='test -z "$(find $HOME/.cache -newer stamp -type f)"',
        root=True,
        fast=True,
    ),
    Row(
        "a cache that another user filled",
        "echo own error 7 >t; row First; $D diagnose t --matrix o >out; grep First out || exit 99;"
        "find $HOME/.cache -type f -exec sed -i s/First/Third/ {} +; chown -R 12345 $HOME/.cache;"
        "$D diagnose t --matrix o >out",
        (1,),
        "grep -q First out && ! grep -q Third out",
        root=True,
        fast=True,
    ),
    Row(
        "a cache that others filled",
        "echo own error 7 >t; row First; $D diagnose t --matrix o >out; grep First out || exit 99;"
        "find $HOME/.cache -type f -exec sed -i s/First/Third/ {} +; chmod -R o+w $HOME/.cache;"
        "$D diagnose t --matrix o >out",
        (1,),
        "grep -q First out && ! grep -q Third out",
    ),
    Row(
        "a cache that others can write",
        "$D check $Q >/dev/null; chmod -R o+w $HOME/.cache; date >stamp; $D check $Q",
        then='test -z "$(find $HOME/.cache -newer stamp -type f)"',
    ),
    Row("no temporary folder", "TMPDIR=/nowhere $D check $Q"),
    Row("a current folder that is gone", "mkdir g; cd g; rmdir ../g; $D check $Q"),
    Row(
        "a click.py here",
        "echo 'raise SystemExit(1)' >click.py; $PY -m ascend_doctor list",
        (0,),
        fast=True,
    ),
    Row(
        "a msgspec.py in PYTHONPATH",
        "mkdir p; echo 'raise SystemExit(1)' >p/msgspec.py;"
        "PYTHONPATH=$PWD/p $PY -m ascend_doctor list",
        (0,),
        fast=True,
    ),
    Row(
        "a json.py in PYTHONPATH",
        "mkdir p; echo 'raise SystemExit(1)' >p/yaml.py; PYTHONPATH=p: $PY -m ascend_doctor list",
        (0,),
    ),
    Row(
        "settings of another owner",
        "printf 'acknowledged: [{id: x, reason: y, expires: 2999-01-01}]' >ascend-doctor.yaml;"
        "chown 12345 ascend-doctor.yaml; $D check $Q 2>err",
        then="grep -q 'not obeyed' err",
        root=True,
        fast=True,
    ),
    Row(
        "settings that everybody writes",
        "echo '{}' >ascend-doctor.yaml; chmod 666 ascend-doctor.yaml; $D check $Q 2>err",
        then="grep -q 'not obeyed' err",
    ),
    Row(
        "four at once, nothing cached",
        "for i in 1 2 3; do $D check $Q >/dev/null & done; $D check $Q; c=$?; wait; exit $c",
    ),
)

INPUTS = (
    Row("settings nested deep", f"{NESTED} >s; $D check $Q --config s", (USAGE,), fast=True),
    Row("settings that multiply", f"{BOMB} >s; $D check $Q --config s", (USAGE,), fast=True),
    Row("settings in a pipe", "mkfifo s; $D check $Q --config s", (USAGE,)),
    Row("a lock nested deep", f"{NESTED} >s; $D check $Q --lock s", (USAGE,)),
    Row("a lock in a pipe", "mkfifo s; $D check $Q --lock s", (USAGE,)),
    Row("a lock in a device", "$D check $Q --lock /dev/zero", (USAGE,)),
    Row("a lock that is not there", "$D check $Q --lock none", (USAGE,)),
    Row(
        "a machine nested deep",
        f"mkdir m; {NESTED} >m/machine.yaml; $D check $Q --replay m",
        (USAGE,),
    ),
    Row(
        "a machine that multiplies",
        f"mkdir m; {BOMB} >m/machine.yaml; $D check $Q --replay m",
        (USAGE,),
    ),
    Row("a machine in a pipe", "mkdir m; mkfifo m/machine.yaml; $D check $Q --replay m", (USAGE,)),
    Row(
        "an overlay nested deep",
        f"mkdir -p o; {NESTED} >o/hazards.yaml; $D check $Q --matrix o",
        (USAGE,),
    ),
    Row(
        "an overlay in a pipe",
        "mkdir -p o; mkfifo o/hazards.yaml; $D check $Q --matrix o",
        (SAME, USAGE),
    ),
    Row("lint nested deep", f"{NESTED} >s.yaml; $D lint s.yaml", (UNKNOWN,), fast=True),
    Row("lint multiplied", f"{BOMB} >s.yaml; $D lint s.yaml", (UNKNOWN,)),
    Row("lint of a pipe", "mkfifo s.yaml; $D lint s.yaml", (USAGE,)),
    Row(
        "lint of numbers without end",
        '$PY -c \'print("a: 1" + ":1" * 1000000)\' >s.yaml; $D lint s.yaml',
        (UNKNOWN,),
    ),
    Row("judge nested deep", f"{NESTED} >s; $D judge s", (USAGE,), fast=True),
    Row("judge of maps nested deep", f"{NESTED_MAPS} >s; $D judge s", (USAGE,)),
    Row(
        "judge of no UTF-8",
        'printf \'{"schema": 1, "host": "\\377"}\' >s; $D judge s',
        (USAGE,),
        fast=True,
    ),
    Row("judge of a pipe", "mkfifo s; $D judge s", (USAGE,)),
    Row("judge of a pipe that is ours", "$D judge <(echo '[]')", (USAGE,)),
    Row("judge of zeros without end", "$D judge /dev/zero", (USAGE,)),
    Row(
        "merge of a folder with a pipe",
        "mkdir d; mkfifo d/a.json; $D merge d",
        (UNKNOWN,),
        fast=True,
    ),
    Row("merge nested deep", f"mkdir d; {NESTED} >d/a.json; $D merge d", (UNKNOWN,)),
    Row("diff of pipes", "mkfifo s; $D diff s s", (USAGE,)),
    Row(
        "plan nested deep", f"{NESTED} >config.json; $D plan --model config.json --npus 8", (USAGE,)
    ),
    Row(
        "plan of layers without end",
        'echo \'{"num_hidden_layers": 99999999999, "hidden_size": 64, "num_attention_heads": 4,'
        ' "vocab_size": 99, "intermediate_size": 64}\' >c.json; $D plan --model ./c.json --npus 8',
        (USAGE,),
    ),
    Row("diagnose of a pipe", "mkfifo s; $D diagnose s", (USAGE,)),
    Row("a host file in a pipe", "mkdir d; mkfifo h; $D merge d --expect h", (USAGE,)),
    Row(
        "a bundle with no sums",
        "mkdir b; : >b/SHA256SUMS; lock URL file:///nowhere >b/ascend-doctor.lock;"
        "$D setup --offline --from b --prefix p --dry-run --yes",
        (USAGE,),
        fast=True,
    ),
    Row(
        "a lock whose ref is an option of git",
        "repository; lock 'ref: core_v0.15.3' \"ref: '--upload-pack=touch $PWD/ran;'\""
        " URL file://$PWD/r >l; $D setup --locked --lock l --prefix p --yes",
        (USAGE,),
        "! test -e ran",
        fast=True,
    ),
    Row(
        "a lock whose package is a command",
        "lock URL file:///nowhere 'megatron-core:' \"'\\$(touch $PWD/ran)':\" >l;"
        "$D setup --locked --lock l --prefix p --dry-run --yes",
        (USAGE,),
    ),
    Row(
        "a setup that was killed while git hung",
        "repository; lock URL file://$PWD/r >l; real=$(command -v git);"
        'printf \'#!/bin/sh\\ncase "$*" in *fetch*) echo $$ >%s/pid;'
        ' exec setsid -w sleep 600 <&- >/dev/null 2>&1 9>&-;; esac\\nexec %s "$@"\\n\''
        " $PWD $real >bin/git; chmod +x bin/git;"
        "$D setup --locked --lock l --prefix p --yes & killed=$!;"
        "for n in $(seq 100); do test -s pid && break; sleep 0.2; done; sleep 0.5;"
        "kill -9 $killed; rm bin/git;"
        "$D setup --locked --lock l --prefix p --yes 2>err; c=$?; sleep 0.5; exit $c",
        (1,),
        "test -s pid && grep -q 'git fetch' err && ! grep -q 'another setup' err",
    ),
    Row(
        "a probe's warning with a password",
        'echo \'{"schema": 1, "taken_at": "2026-11-22T08:47:27+00:00", "host": {"name": "n"},'
        ' "probes": [{"probe": "smoke-train", "argv": ["x"], "exit_code": 1, "ranks": [{"probe":'
        ' "smoke-train", "rank": 0, "world_size": 1, "stage": "x", "stages": {}, "ok": true,'
        ' "values": {}, "warnings": {"login with --password hunter2hunter2": 3}}]}]}\' >s;'
        "$D judge s --format json >out",
        (UNKNOWN,),
        "grep -q -e --password out && ! grep -q hunter2 out",
        fast=True,
    ),
    Row(
        "a check whose name is a metric",
        "$D check $Q --format json >r.json; $PY -c 'import json;"
        ' told = json.load(open("r.json"));'
        ' told["findings"][0] |= {"check": "a\\"} 1\\nevil{x=\\"", "level": "error"};'
        ' json.dump(told, open("r.json", "w"))\';'
        "$D merge r.json --format prometheus >out",
        (UNKNOWN,),
        "! grep -q ^evil out",
        fast=True,
    ),
    Row(
        "a failure of one's own that changed and kept its time and size",
        "echo own error 7 >t; row First; $D diagnose t --matrix o; row Later;"
        "$D diagnose t --matrix o >out",
        (1,),
        "grep -q Later out",
        fast=True,
    ),
    Row(
        "no NPU behind a gate",
        "$PY -m venv --without-pip v; $D check --preset prolog --python v/bin/python",
        (1,),
    ),
    Row(
        "a msgspec.py here while a launch is diagnosed",
        'echo \'open("ran", "w")\' >msgspec.py;$D run --anyway -q --only shared-memory -- false',
        (1,),
        "! test -e ran",
        fast=True,
    ),
    Row(
        "a log that is a link",
        "echo precious >t; ln -s t ascend-doctor-run.log;"
        "$D run --anyway -q --only shared-memory -- true",
        (USAGE,),
        "grep -q precious t",
        fast=True,
    ),
    Row(
        "a prefix whose lock is a link",
        "mkdir p; echo precious >t; ln -s ../t p/.lock;"
        "$PY -c 'from pathlib import Path; from ascend_doctor.provision.running import exclusively;"
        ' exclusively(Path("p/.lock")).__enter__()\' 2>/dev/null',
        (1,),
        "grep -q precious t",
        fast=True,
    ),
)

ROWS = (*TOOLS, *SEARCHED, *LIMITS, *OUTPUTS, *FOLDERS, *INPUTS)
