"""``ascend-doctor stack``: the stacks that setup has built."""

from ascend_doctor.commands.lazy import LazyGroup

COMMANDS = {
    "list": "List the stacks and wheels of a prefix, with size and age.",
    "use": "Put a stack that was built before in use again.",
    "remove": "Remove stacks that are not in use, and wheels that no stack has.",
}

command = LazyGroup(
    name="stack",
    sections={"Commands": COMMANDS},
    modules="ascend_doctor.commands.stack_",
    help="List, switch and remove the stacks that setup has built.",
)
