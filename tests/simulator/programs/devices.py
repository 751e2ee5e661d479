"""Prints what torch_npu says of the devices, as JSON."""
# ruff: noqa: T201 - the test reads what it prints

import json

import torch
import torch_npu

report = {
    "available": torch.npu.is_available(),
    "count": torch.npu.device_count(),
}
if report["count"]:
    properties = torch.npu.get_device_properties(0)
    report |= {
        "name": torch.npu.get_device_name(0),
        "memory": properties.total_memory,
        "cubes": properties.cube_core_num,
        "vectors": properties.vector_core_num,
        "l2": properties.L2_cache_size,
        "cann": torch_npu.npu.utils.get_cann_version("CANN"),
        "chip": torch_npu.npu.utils.get_soc_version(),
    }
print(json.dumps(report))
