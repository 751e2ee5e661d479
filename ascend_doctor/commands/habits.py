"""What people type out of habit, by what it is called here: commands, options, stray words."""

COMPLETION = "_ASCEND_DOCTOR_COMPLETE"  # of click
# `COMMAND {}` is a word for which the command has no place.
_TYPED = {
    "check": "doctor, import, status, test, verify",
    "setup": "build, init, install",
    "env": "activate",
    "diagnose": "analyse, analyze, crash, debug, log, logs",
    "explain": "why",
    "hang": "freeze, ps, stall, stuck, top, watch",
    "plan": "estimate, fit, memory, oom",
    "rehearse": "simulate, simulator",
    "run": "exec, launch, torchrun, train",
    "remove": "delete, rm",
    "stack": "uninstall",
    "use": "switch",
    "report": "bugreport, bundle, collect, issue, send, share, support",
    "matrix upgrade": "update, upgrade",
    "matrix solve": "compatible, solve, versions, which",
    "check --preset prolog": "gate, slurm",
    "check --preset init": "container, k8s, kubernetes, pod",
    "--version": "version",
    "--expect": "--hosts",
    "--help-all": "--all",
    "--nproc": "--npus, --ranks",
    "--npus": "--gpus, --nodes",
    "--seq": "--seq-len",
    "--soc": "--chip",
    "--undo": "--unset",
    "ascend-doctor fix": "check --fix",
    "ascend-doctor stack list": "setup --list",
    "ascend-doctor setup --megatron {}": "setup {}",
    "ascend-doctor snapshot -o {}": "snapshot {}",
    "--on": "--cann, --driver, --soc",
    "ascend-doctor env --prefix {}": "env {}",
}
HABITS = {word: meant for meant, words in _TYPED.items() for word in words.split(", ")}
# These are taken as what they mean.
ALIASES = frozenset({"doctor", "version"})
