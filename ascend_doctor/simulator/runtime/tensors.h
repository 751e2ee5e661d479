/* A strided tensor of the simulated device, and the copy between two of them. */
#ifndef ASCEND_SIMULATOR_TENSORS_H
#define ASCEND_SIMULATOR_TENSORS_H

#include "cann.h"

enum { SIM_MAX_DIMS = 25 }; /* what torch_npu can pass */

typedef struct {
    aclDataType type;
    int dims;
    int64_t sizes[SIM_MAX_DIMS], strides[SIM_MAX_DIMS]; /* in elements */
    char *data;
} sim_tensor;

size_t sim_element_size(aclDataType type);
/* target[...] = (type of target) source[...], with the broadcasting of torch. */
aclError sim_copy(const sim_tensor *target, const sim_tensor *source);

#endif
