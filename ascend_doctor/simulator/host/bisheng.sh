#!/bin/sh
# simulated: no compiler. triton-ascend requires an NPU where it knows its target (is_active in
# triton/backends/ascend/driver.py of 3.2.0).
if [ "$1" = -print-targets ]; then
    echo "hiipu64 - simulated"
    exit 0
fi
echo "bisheng: there is no compiler on a simulated NPU" >&2
exit 1
