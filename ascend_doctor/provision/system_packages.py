"""What installs a component of the system, as CANN, by its package managers; setup never does."""

import re

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import PackageManager
from ascend_doctor.matrix.versions import satisfies

# Each manager spells betas differently.
_FINAL = re.compile(r"\d+\.\d+\.\d+")


def install_commands(
    catalog: Catalog, name: str, version: str, family: str | None
) -> dict[PackageManager, str]:
    """Each package manager's documented command for a version; ``family`` adds its operators."""
    component = catalog.component(name)
    if not _FINAL.fullmatch(version):
        return {}
    # The last is that of CANN 8.5 and newer.
    operators = catalog.family(family).ops_packages[-1:] if family and name == "cann" else ()
    return {
        manager: manager.command_for((*component.obtain.packages, *operators), version)
        for manager in component.obtain.managers
        if satisfies(component.scheme, version, manager.versions)
    }
