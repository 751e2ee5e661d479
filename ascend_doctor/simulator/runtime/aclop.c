/* Operators of the older kind (aclop): descriptions of tensors, and the few operators that torch_npu's
 * C++ issues by itself. Everything else is refused with its name. */
#define _GNU_SOURCE
#include "simulator.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct aclTensorDesc {
    aclDataType type;
    aclFormat format;
    int dims;
    int64_t sizes[SIM_MAX_DIMS];
};
struct aclDataBuffer {
    char *data;
    size_t size;
};
struct aclopAttr {
    char unused;
};

aclError aclSetTensorShape(aclTensorDesc *desc, int dims, const int64_t *sizes) {
    if (dims < 0 || dims > SIM_MAX_DIMS)
        return ACL_ERROR_INVALID_PARAM;
    desc->dims = dims;
    if (dims)
        memcpy(desc->sizes, sizes, (size_t)dims * sizeof *sizes);
    return ACL_SUCCESS;
}

aclTensorDesc *aclCreateTensorDesc(aclDataType type, int dims, const int64_t *sizes, aclFormat format) {
    aclTensorDesc *desc = calloc(1, sizeof *desc);
    if (!desc || aclSetTensorShape(desc, dims, sizes)) {
        free(desc);
        return NULL;
    }
    desc->type = type;
    desc->format = format;
    return desc;
}

void aclDestroyTensorDesc(const aclTensorDesc *desc) {
    free((void *)desc);
}

aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format) {
    desc->format = format;
    return ACL_SUCCESS;
}

aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType where) {
    (void)desc, (void)where;
    return ACL_SUCCESS;
}

void aclSetTensorDescName(aclTensorDesc *desc, const char *name) {
    (void)desc, (void)name;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc *desc) {
    return (size_t)desc->dims;
}

aclDataType aclGetTensorDescType(const aclTensorDesc *desc) {
    return desc->type;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc) {
    return desc->format;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *size) {
    if (index >= (size_t)desc->dims)
        return ACL_ERROR_INVALID_PARAM;
    *size = desc->sizes[index];
    return ACL_SUCCESS;
}

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size) {
    aclDataBuffer *buffer = malloc(sizeof *buffer);
    if (buffer)
        *buffer = (aclDataBuffer){data, size};
    return buffer;
}

aclError aclDestroyDataBuffer(const aclDataBuffer *buffer) {
    free((void *)buffer);
    return ACL_SUCCESS;
}

void *aclGetDataBufferAddr(const aclDataBuffer *buffer) {
    return buffer->data;
}

aclopAttr *aclopCreateAttr(void) {
    return calloc(1, sizeof(aclopAttr));
}

void aclopDestroyAttr(const aclopAttr *attribute) {
    free((void *)attribute);
}

/* Attributes are accepted and not kept: the operators below have none that matters. */
#define ACCEPT(name, ...)                                       \
    aclError name(aclopAttr *attribute, const char *key, __VA_ARGS__) { \
        (void)attribute, (void)key;                             \
        return ACL_SUCCESS;                                     \
    }
ACCEPT(aclopSetAttrBool, uint8_t value __attribute__((unused)))
ACCEPT(aclopSetAttrInt, int64_t value __attribute__((unused)))
ACCEPT(aclopSetAttrFloat, float value __attribute__((unused)))
ACCEPT(aclopSetAttrString, const char *value __attribute__((unused)))
ACCEPT(aclopSetAttrDataType, aclDataType value __attribute__((unused)))
ACCEPT(aclopSetAttrListBool, int n __attribute__((unused)), const uint8_t *v __attribute__((unused)))
ACCEPT(aclopSetAttrListInt, int n __attribute__((unused)), const int64_t *v __attribute__((unused)))
ACCEPT(aclopSetAttrListFloat, int n __attribute__((unused)), const float *v __attribute__((unused)))
ACCEPT(aclopSetAttrListListInt, int n __attribute__((unused)), const int *c __attribute__((unused)),
       const int64_t *const v[] __attribute__((unused)))

/* What an option is before it is set: torch_npu expects "must_keep_origin_dtype" and "disable" of
 * Ascend910B and newer (torch_npu/csrc/framework/LazyInitAclops.cpp, interface/EnvVariables.cpp).
 * Unknown options have no value. */
static const char *default_of(aclCompileOpt option) {
    return option == ACL_PRECISION_MODE   ? "must_keep_origin_dtype"
           : option == ACL_OP_JIT_COMPILE ? "disable"
                                          : "";
}

size_t aclGetCompileoptSize(aclCompileOpt option) {
    return strlen(default_of(option)) + 1;
}

aclError aclGetCompileopt(aclCompileOpt option, char *value, size_t length) {
    if (!value || length < aclGetCompileoptSize(option))
        return ACL_ERROR_INVALID_PARAM;
    strcpy(value, default_of(option));
    return ACL_SUCCESS;
}

aclError aclSetCompileopt(aclCompileOpt option, const char *value) {
    (void)option, (void)value;
    const sim_fault *fault = sim_fault_due("compiler-init", -1);
    return fault ? sim_report(ACL_ERROR_FAILURE, "EZ9999", "init runtime platform info failed, SocVersion = %s",
                              sim_config()->soc)
                 : ACL_SUCCESS;
}

typedef struct {
    int inputs, outputs;
    const aclTensorDesc *const *in_desc, *const *out_desc;
    const aclDataBuffer *const *in;
    aclDataBuffer *const *out;
} operands;

static int64_t scalar(const operands *o, int input, int64_t index) {
    const char *data = o->in[input]->data;
    return o->in_desc[input]->type == ACL_INT64 ? ((const int64_t *)data)[index]
                                                 : ((const int32_t *)data)[index];
}

/* inputs: target, its size, stride, offset, source, its size, stride, offset */
static aclError view_copy(const operands *o) {
    if (o->inputs < 8)
        return ACL_ERROR_INVALID_PARAM;
    sim_tensor sides[2];
    for (int side = 0; side < 2; side++) {
        int first = side * 4;
        sim_tensor *t = &sides[side];
        t->type = o->in_desc[first]->type;
        t->dims = (int)o->in_desc[first + 1]->sizes[0];
        if (t->dims < 0 || t->dims > SIM_MAX_DIMS)
            return ACL_ERROR_INVALID_PARAM;
        for (int i = 0; i < t->dims; i++) {
            t->sizes[i] = scalar(o, first + 1, i);
            t->strides[i] = scalar(o, first + 2, i);
        }
        t->data = o->in[first]->data + scalar(o, first + 3, 0) * (int64_t)sim_element_size(t->type);
    }
    return sim_copy(&sides[0], &sides[1]);
}

static aclError move(const operands *o) {
    size_t room = o->out[0]->size, size = o->in[0]->size;
    if (room && size)
        memmove(o->out[0]->data, o->in[0]->data, room < size ? room : size);
    return ACL_SUCCESS;
}

static void fill(const aclDataBuffer *buffer, const char *value, size_t size) {
    for (size_t at = 0; size && at + size <= buffer->size; at += size)
        memcpy(buffer->data + at, value, size);
}

static aclError fill_all(const operands *o) {
    fill(o->out[0], o->in[1]->data, sim_element_size(o->out_desc[0]->type));
    return ACL_SUCCESS;
}

static aclError zeros(const operands *o) {
    if (o->out[0]->size)
        memset(o->out[0]->data, 0, o->out[0]->size);
    return ACL_SUCCESS;
}

/* inputs: tensor, (before, after) for each dimension, value; a constant padding */
static aclError pad(const operands *o) {
    static const char zero[16];
    const aclTensorDesc *small = o->in_desc[0], *large = o->out_desc[0];
    size_t size = sim_element_size(small->type);
    fill(o->out[0], o->inputs > 2 ? o->in[2]->data : zero, size);
    sim_tensor target = {.type = large->type, .dims = small->dims, .data = o->out[0]->data};
    sim_tensor source = {.type = small->type, .dims = small->dims, .data = o->in[0]->data};
    int64_t in_step = 1, out_step = 1;
    for (int i = small->dims - 1; i >= 0; i--) {
        int64_t before = scalar(o, 1, 2 * i);
        if (before < 0 || before + small->sizes[i] > large->sizes[i])
            return sim_not_simulated("a padding that cuts");
        target.sizes[i] = source.sizes[i] = small->sizes[i];
        target.strides[i] = out_step, source.strides[i] = in_step;
        target.data += before * out_step * (int64_t)size;
        in_step *= small->sizes[i], out_step *= large->sizes[i];
    }
    return sim_copy(&target, &source);
}

static const struct {
    const char *name;
    aclError (*run)(const operands *);
} operators[] = {
    {"ViewCopy", view_copy}, {"TensorMove", move}, {"Identity", move}, {"Fill", fill_all},
    {"ZerosLike", zeros},    {"Pad", pad},         {"PadV2", pad},     {"PadV3", pad},
};

/* The descriptions are the caller's and go away after the call, so it runs now, behind the stream. */
aclError aclopCompileAndExecute(const char *type, int inputs, const aclTensorDesc *const in_desc[],
                                const aclDataBuffer *const in[], int outputs,
                                const aclTensorDesc *const out_desc[], aclDataBuffer *const out[],
                                const aclopAttr *attributes, aclopEngineType engine, aclopCompileType flag,
                                const char *path, aclrtStream stream) {
    (void)attributes, (void)engine, (void)flag, (void)path;
    operands o = {inputs, outputs, in_desc, out_desc, in, out};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (!strcmp(type, operators[i].name)) {
            aclError code = sim_wait(stream, -1);
            return code ? code : operators[i].run(&o);
        }
    sim_not_simulated(type);
    return ACL_ERROR_FAILURE;
}

aclError aclopCompileAndExecuteV2(const char *type, int inputs, aclTensorDesc *in_desc[], aclDataBuffer *in[],
                                  int outputs, aclTensorDesc *out_desc[], aclDataBuffer *out[],
                                  aclopAttr *attributes, aclopEngineType engine, aclopCompileType flag,
                                  const char *path, aclrtStream stream) {
    return aclopCompileAndExecute(type, inputs, (const aclTensorDesc *const *)in_desc,
                                  (const aclDataBuffer *const *)in, outputs,
                                  (const aclTensorDesc *const *)out_desc, out, attributes, engine, flag, path,
                                  stream);
}
