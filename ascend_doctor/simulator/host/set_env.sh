# simulated: the environment of a stand-in CANN tree of ascend-doctor, not of CANN
_root="$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)"
export ASCEND_TOOLKIT_HOME="$_root" ASCEND_HOME_PATH="$_root" ASCEND_OPP_PATH="$_root/opp"
export ASCEND_AICPU_PATH="$_root" TOOLCHAIN_HOME="$_root/toolkit"
export LD_LIBRARY_PATH="$_root/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PYTHONPATH="$_root/python/site-packages${PYTHONPATH:+:$PYTHONPATH}"
export PATH="$_root/bin:$PATH"
unset _root
