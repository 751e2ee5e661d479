"""C text for what the simulated runtime does not implement: each stub names itself and fails."""

import re
from collections.abc import Iterable

# Graph engine calls that return a status; 0 would claim success.
GRAPH_STATUS = re.compile(r"_ZNK?2ge(7Session\d|12GEInitialize|10GEFinalize|5Graph28Load)")
# Vtables, type information and type names (Itanium C++ ABI): data, not functions.
DATA = ("_ZTV", "_ZTI", "_ZTS")
HEADER = """#include <stddef.h>
extern int sim_not_simulated(const char *);
extern int sim_no_kernel(const char *);
"""


def library(symbols: Iterable[str]) -> str:
    """Stubs of one library.

    A C function reports itself and returns an error code. torchair's import only constructs the
    C++ classes of the graph engine, so theirs return nothing, and its status functions fail.
    """
    return HEADER + "".join(map(_stub, sorted(symbols)))


def kernels(names: Iterable[str]) -> str:
    """Stubs of aclnn operators: both halves of each, which fail like a missing kernel."""
    return "".join(
        f'int {name}GetWorkspaceSize(void) {{ return sim_no_kernel("{name}"); }}\n'
        f'int {name}(void) {{ return sim_no_kernel("{name}"); }}\n'
        for name in sorted(names)
    )


def _stub(symbol: str) -> str:
    if symbol.startswith(DATA):
        # As large as any vtable that is linked against; nobody calls through it.
        return f"void *{symbol}[64];\n"
    if GRAPH_STATUS.match(symbol):
        return f'unsigned {symbol}(void) {{ sim_not_simulated("{symbol}"); return 0xffffffffU; }}\n'
    if symbol.startswith("_ZN") and not symbol.startswith("_ZN3atb"):
        return f'void *{symbol}(void) {{ sim_not_simulated("{symbol}"); return NULL; }}\n'
    return f'int {symbol}(void) {{ return sim_not_simulated("{symbol}"); }}\n'
