"""Hostile surroundings of a level 0: what a shell does around it, and how it may end.

In a script ``$D`` is the doctor, ``$Q`` the options of a quick check. ``tool`` makes an npu-smi,
``lock`` prints the lock of a stack of one checkout, with replacements, ``repository`` makes one to
fetch from, ``row`` writes a known failure.
``same`` stands for the exit code that the check has here without anything hostile.
"""

from typing import NamedTuple

SAME = -1


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
  for name in npu-smi hccn_tool git python3 python; do
    printf '#!/bin/sh\ntouch "%s/ran"\n' "$PWD" >"$1/$name"; chmod 755 "$1/$name"
  done
}
repository() {
  git init -q r && git -C r -c user.name=x -c user.email=x@y commit -q --allow-empty -m x
}
"""


def read_rows(table: str) -> tuple[Row, ...]:
    """Rows of a text: a name with its codes and marks in brackets, its script, its test after ?."""
    rows: list[Row] = []
    for line in table.strip("\n").split("\n"):
        if line.startswith("  ? "):
            rows[-1] = rows[-1]._replace(then=line[4:])
        elif line.startswith("  "):
            rows[-1] = rows[-1]._replace(script=f"{rows[-1].script}{line[2:]}\n")
        else:
            name, _, marks = line.rstrip("]").partition(" [")
            words = [word for word in marks.split() if word not in {"fast", "root"}]
            codes = tuple(SAME if word == "same" else int(word) for word in words) or (SAME,)
            rows.append(Row(name, "", codes, fast="fast" in marks, root="root" in marks))
    return tuple(rows)


TOOLS = read_rows(r"""
npu-smi hangs [1 3 fast]
  tool 'sleep 600'; $D check $Q --timeout 2
npu-smi ignores SIGTERM [1 3]
  tool 'trap "" TERM; sleep 600'; $D check $Q --timeout 2
npu-smi leaves a daemon on its pipes [fast]
  tool 'setsid sleep 600 & exit 0'; $D check $Q
npu-smi leaves a daemon that closed them
  tool 'setsid sleep 600 >/dev/null 2>&1 </dev/null & exit 0'; $D check $Q
npu-smi floods [same 1 3]
  tool 'yes'; $D check $Q --timeout 30
npu-smi floods standard error [same 1 3]
  tool 'yes >&2'; $D check $Q --timeout 30
npu-smi writes no UTF-8 [same 1 3]
  tool 'printf "\377\376|\200"'; $D check $Q
npu-smi writes to the terminal [same 1 3]
  tool 'printf "| NPU \033[2J\033]0;x\007 |\n"'; $D check $Q >out; c=$?; exit $c
  ? ! grep -q $'\033' out
npu-smi ends by a signal [same 1 3]
  tool 'kill -SEGV $$'; $D check $Q
npu-smi is a folder
  mkdir bin/npu-smi; $D check $Q
npu-smi is a pipe [fast]
  mkfifo bin/npu-smi; $D check $Q
npu-smi is no program [same 1 3]
  echo x >bin/npu-smi; chmod +x bin/npu-smi; $D check $Q
npu-smi is a link to nowhere
  ln -s /nowhere bin/npu-smi; $D check $Q
no PATH
  PATH= $D check $Q
a PATH of a thousand folders
  PATH=$PATH$(printf ':/x%.0s' $(seq 1000)) $D check $Q
a pipe in PATH and in the loader's path
  mkfifo p; PATH=$PWD/p:$PATH LD_LIBRARY_PATH=$PWD/p $D check $Q
""")

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

LIMITS = read_rows(r"""
12 descriptors [same 1 2 3 fast]
  ulimit -n 12; $D check $Q
6 descriptors [3]
  ulimit -n 6; $D check $Q
5 descriptors [3 fast]
  ulimit -n 5; $D check $Q
no texts of functions [fast]
  PYTHONOPTIMIZE=2 $PY -m ascend_doctor check $Q
400 MB of addresses [same 1 3]
  ulimit -v 400000; $D check $Q
no byte may be written [2 3]
  ulimit -f 0; $D check $Q -o r.json --format json
  ? ! test -s r.json
a small stack [same 1 3]
  ulimit -s 256; $D check $Q
no locked memory
  ulimit -l 0; $D check $Q
""")

OUTPUTS = read_rows(r"""
standard output closed [fast]
  $D check $Q >&-
standard error closed
  $D check $Q 2>&-
all three closed [fast]
  $D check $Q >&- 2>&- <&-
all closed, a file wanted
  $D check $Q -o r.json --format json >&- 2>&- <&-
  ? head -c1 r.json | grep -q '{'
standard output full [2 fast]
  $D check $Q >/dev/full
standard error full
  $D check -l 0 --python $PY 2>/dev/full
a full list [2]
  $D list >/dev/full
a reader that leaves [0 fast]
  set -o pipefail; $D list | true
a reader of a report that leaves
  set -o pipefail; $D check $Q --format json | true
a file in /dev/full [2]
  $D check $Q -o /dev/full --format json
a file in /dev/null [fast]
  $D check $Q -o /dev/null --format json
  ? test -c /dev/null
a file in /dev/stdout
  $D check $Q -o /dev/stdout --format json >out
  ? head -c1 out | grep -q '{' && test -L /dev/stdout
a device of one's own [fast root]
  mknod null c 1 3; $D check $Q -o null --format json
  ? test -c null
a pipe that nobody reads [2]
  mkfifo p; $D check $Q -o p --format json
  ? test -p p
a file that is a folder [2]
  mkdir d; $D check $Q -o d --format json
a file in no folder [2]
  $D check $Q -o none/r.json --format json
a link [fast]
  echo >t; ln -s t l; $D check $Q -o l --format json
  ? test -L l && head -c1 t | grep -q '{'
a link to nothing yet
  ln -s t l; $D check $Q -o l --format json
  ? test -L l && test -s t
links in a ring [2]
  ln -s a b; ln -s b a; $D check $Q -o a --format json
a second name
  echo >t; ln t h; $D check $Q -o h --format json
  ? cmp t h && test -s t
a mode
  echo >t; chmod 600 t; $D check $Q -o t --format json
  ? test $(stat -c %a t) = 600
another's owner [root]
  echo >t; chown 12345:54321 t; $D check $Q -o t --format json
  ? test $(stat -c %u:%g t) = 12345:54321
a link that another planted [2 fast root]
  mkdir -m 1777 s; echo mine >t; ln -s $PWD/t s/r; chown -h 12345 s/r;
  $D check $Q -o s/r --format json
  ? grep -q mine t
""")

FOLDERS = read_rows(r"""
no HOME
  env -u HOME $D check $Q
a HOME that is not there
  HOME=$PWD/not/there $D check $Q
  ? ! test -e not
a HOME that is a device
  HOME=/dev/null $D check $Q
a relative HOME
  HOME=home $D check $Q
  ? ! test -e home/.cache
a cache that is a file
  touch c; XDG_CACHE_HOME=$PWD/c $D check $Q
a cache full of noise
  $D check $Q >/dev/null; for f in $(find $HOME -name '*.msgpack'); do echo noise >$f; done;
  $D check $Q
a cache of another owner [fast root]
  $D check $Q >/dev/null; chown -R 12345 $HOME/.cache; date >stamp; $D check $Q
  ? test -z "$(find $HOME/.cache -newer stamp -type f)"
a cache that another user filled [1 fast root]
  echo own error 7 >t; row First; $D diagnose t --matrix o >out; grep First out || exit 99;
  find $HOME/.cache -type f -exec sed -i s/First/Third/ {} +; chown -R 12345 $HOME/.cache;
  $D diagnose t --matrix o >out
  ? grep -q First out && ! grep -q Third out
a cache that others filled [1]
  echo own error 7 >t; row First; $D diagnose t --matrix o >out; grep First out || exit 99;
  find $HOME/.cache -type f -exec sed -i s/First/Third/ {} +; chmod -R o+w $HOME/.cache;
  $D diagnose t --matrix o >out
  ? grep -q First out && ! grep -q Third out
a cache that others can write
  $D check $Q >/dev/null; chmod -R o+w $HOME/.cache; date >stamp; $D check $Q
  ? test -z "$(find $HOME/.cache -newer stamp -type f)"
no temporary folder
  TMPDIR=/nowhere $D check $Q
a current folder that is gone
  mkdir g; cd g; rmdir ../g; $D check $Q
a click.py here [0 fast]
  echo 'raise SystemExit(1)' >click.py; $PY -m ascend_doctor list
a msgspec.py in PYTHONPATH [0 fast]
  mkdir p; echo 'raise SystemExit(1)' >p/msgspec.py;PYTHONPATH=$PWD/p $PY -m ascend_doctor list
a json.py in PYTHONPATH [0]
  mkdir p; echo 'raise SystemExit(1)' >p/yaml.py; PYTHONPATH=p: $PY -m ascend_doctor list
settings of another owner [fast root]
  printf 'acknowledged: [{id: x, reason: y, expires: 2999-01-01}]' >ascend-doctor.yaml;
  chown 12345 ascend-doctor.yaml; $D check $Q 2>err
  ? grep -q 'not obeyed' err
settings that everybody writes
  echo '{}' >ascend-doctor.yaml; chmod 666 ascend-doctor.yaml; $D check $Q 2>err
  ? grep -q 'not obeyed' err
four at once, nothing cached
  for i in 1 2 3; do $D check $Q >/dev/null & done; $D check $Q; c=$?; wait; exit $c
""")

INPUTS = read_rows(r"""
settings in a pipe [2]
  mkfifo s; $D check $Q --config s
a lock in a pipe [2]
  mkfifo s; $D check $Q --lock s
a lock in a device [2]
  $D check $Q --lock /dev/zero
a lock that is not there [2]
  $D check $Q --lock none
a machine in a pipe [2]
  mkdir m; mkfifo m/machine.yaml; $D check $Q --replay m
an overlay in a pipe [same 2]
  mkdir -p o; mkfifo o/hazards.yaml; $D check $Q --matrix o
lint of a pipe [2]
  mkfifo s.yaml; $D lint s.yaml
lint of numbers without end [3]
  $PY -c 'print("a: 1" + ":1" * 1000000)' >s.yaml; $D lint s.yaml
judge of no UTF-8 [2 fast]
  printf '{"schema": 1, "host": "\377"}' >s; $D judge s
judge of a pipe [2]
  mkfifo s; $D judge s
judge of a pipe that is ours [2]
  $D judge <(echo '[]')
judge of zeros without end [2]
  $D judge /dev/zero
merge of a folder with a pipe [3 fast]
  mkdir d; mkfifo d/a.json; $D merge d
diff of pipes [2]
  mkfifo s; $D diff s s
plan of layers without end [2]
  echo '{"num_hidden_layers": 99999999999, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 99, "intermediate_size": 64}' >c.json;
  $D plan --model ./c.json --npus 8
diagnose of a pipe [2]
  mkfifo s; $D diagnose s
a host file in a pipe [2]
  mkdir d; mkfifo h; $D merge d --expect h
a bundle with no sums [2 fast]
  mkdir b; : >b/SHA256SUMS; lock URL file:///nowhere >b/ascend-doctor.lock;
  $D setup --offline --from b --prefix p --dry-run --yes
a lock whose ref is an option of git [2 fast]
  repository;
  lock 'ref: core_v0.15.3' "ref: '--upload-pack=touch $PWD/ran;'" URL file://$PWD/r >l;
  $D setup --locked --lock l --prefix p --yes
  ? ! test -e ran
a lock whose package is a command [2]
  lock URL file:///nowhere 'megatron-core:' "'\$(touch $PWD/ran)':" >l;
  $D setup --locked --lock l --prefix p --dry-run --yes
a setup that was killed while git hung [1]
  repository; lock URL file://$PWD/r >l; real=$(command -v git);
  printf '#!/bin/sh\ncase "$*" in *fetch*) echo $$ >%s/pid; exec setsid -w sleep 600 <&- >/dev/null 2>&1 9>&-;; esac\nexec %s "$@"\n' $PWD $real >bin/git;
  chmod +x bin/git;$D setup --locked --lock l --prefix p --yes & killed=$!;for n in $(seq 100);
  do test -s pid && break; sleep 0.2; done; sleep 0.5;kill -9 $killed; rm bin/git;
  $D setup --locked --lock l --prefix p --yes 2>err; c=$?; sleep 0.5; exit $c
  ? test -s pid && grep -q 'git fetch' err && ! grep -q 'another setup' err
a probe's stage with a password [3 fast]
  echo '{"schema": 1, "taken_at": "2026-11-22T08:47:27+00:00", "host": {"name": "n"}, "probes": [{"probe": "smoke-train", "argv": ["x"], "exit_code": 1, "ranks": [{"probe": "smoke-train", "rank": 0, "world_size": 1, "stage": "x", "stages": {"login with --password hunter2hunter2": 3}, "ok": true, "values": {}}]}]}' >s;
  $D judge s --format json >out
  ? grep -q -e --password out && ! grep -q hunter2 out
a check whose name is a metric [3 fast]
  $D check $Q --format json >r.json;
  $PY -c 'import json; told = json.load(open("r.json")); told["findings"][0] |= {"check": "a\"} 1\nevil{x=\"", "level": "error"}; json.dump(told, open("r.json", "w"))';
  $D merge r.json --format prometheus >out
  ? ! grep -q ^evil out
a failure of one's own that changed and kept its time and size [1 fast]
  echo own error 7 >t; row First; $D diagnose t --matrix o; row Later;
  $D diagnose t --matrix o >out
  ? grep -q Later out
no NPU behind a gate [1]
  $PY -m venv --without-pip v; $D check --preset prolog --python v/bin/python
a msgspec.py here while a launch is diagnosed [1 fast]
  echo 'open("ran", "w")' >msgspec.py;$D run --anyway -q --only shared-memory -- false
  ? ! test -e ran
a log that is a link [2 fast]
  echo precious >t; ln -s t ascend-doctor-run.log;
  $D run --anyway -q --only shared-memory -- true
  ? grep -q precious t
a prefix whose lock is a link [1 fast]
  mkdir p; echo precious >t; ln -s ../t p/.lock;
  $PY -c 'from pathlib import Path; from ascend_doctor.provision.running import exclusively; exclusively(Path("p/.lock")).__enter__()' 2>/dev/null
  ? grep -q precious t
""")  # noqa: E501

ROWS = (*TOOLS, *SEARCHED, *LIMITS, *OUTPUTS, *FOLDERS, *INPUTS)
