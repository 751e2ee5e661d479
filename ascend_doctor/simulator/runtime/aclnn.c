/* libopapi.so: operators of the newer kind (aclnn). Tensors and their lists are described here, and the
 * copies that torch_npu's C++ makes by itself are done; every other aclnn name of the wheel is a
 * generated stub. Signatures: op-plugin/op_plugin/utils/op_api_common_base.h in the wheel. */
#define _GNU_SOURCE
#include "simulator.h"
#include "tensors.h"

#include <stdlib.h>
#include <string.h>

/* Scalars, arrays and lists only travel to operators that are not simulated, or hold one value. */
typedef struct {
    aclDataType type;
    char value[16];
} number;

sim_tensor *aclCreateTensor(const int64_t *sizes, uint64_t dims, aclDataType type, const int64_t *strides,
                            int64_t offset, aclFormat format, const int64_t *storage, uint64_t storage_dims,
                            void *data) {
    (void)format, (void)storage, (void)storage_dims;
    sim_tensor *t = dims <= SIM_MAX_DIMS ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    t->type = type;
    t->dims = (int)dims;
    for (uint64_t i = 0; i < dims; i++) {
        t->sizes[i] = sizes[i];
        t->strides[i] = strides[i];
    }
    t->data = data ? (char *)data + offset * (int64_t)sim_element_size(type) : NULL;
    return t;
}

number *aclCreateScalar(void *value, aclDataType type) {
    number *made = calloc(1, sizeof *made);
    if (made) {
        made->type = type;
        memcpy(made->value, value, sim_element_size(type));
    }
    return made;
}

static void *opaque(void) {
    return calloc(1, 1);
}

typedef struct {
    uint64_t size;
    int64_t values[];
} integers;

integers *aclCreateIntArray(const int64_t *values, uint64_t size) {
    integers *made = malloc(sizeof *made + size * sizeof *values);
    if (made) {
        made->size = size;
        if (size)
            memcpy(made->values, values, size * sizeof *values);
    }
    return made;
}

void *aclCreateFloatArray(const float *values, uint64_t size) {
    (void)values, (void)size;
    return opaque();
}

void *aclCreateBoolArray(const bool *values, uint64_t size) {
    (void)values, (void)size;
    return opaque();
}

typedef struct {
    uint64_t size;
    void *items[];
} list;

/* A list owns its items, as in CANN: destroying it destroys them. */
static list *make_list(const void *const *items, uint64_t size) {
    list *made = malloc(sizeof *made + size * sizeof *items);
    if (made) {
        made->size = size;
        if (size)
            memcpy(made->items, items, size * sizeof *items);
    }
    return made;
}

static int destroy_list(list *l) {
    for (uint64_t i = 0; l && i < l->size; i++)
        free(l->items[i]);
    free(l);
    return ACL_SUCCESS;
}

list *aclCreateTensorList(const sim_tensor *const *tensors, uint64_t size) {
    return make_list((const void *const *)tensors, size);
}

list *aclCreateScalarList(const number *const *scalars, uint64_t size) {
    return make_list((const void *const *)scalars, size);
}

int aclDestroyTensorList(list *l) {
    return destroy_list(l);
}

int aclDestroyScalarList(list *l) {
    return destroy_list(l);
}

#define DESTROY(name)            \
    int name(void *thing) {      \
        free(thing);             \
        return ACL_SUCCESS;      \
    }
DESTROY(aclDestroyTensor)
DESTROY(aclDestroyScalar)
DESTROY(aclDestroyIntArray)
DESTROY(aclDestroyFloatArray)
DESTROY(aclDestroyBoolArray)
DESTROY(aclDestroyAclOpExecutor)

typedef struct {
    sim_tensor target, source;
} copy;

/* What is too large to be computed at true size. */
static bool left_out(const sim_tensor *t) {
    uint64_t bytes = sim_element_size(t->type);
    for (int i = 0; i < t->dims; i++)
        bytes *= (uint64_t)t->sizes[i];
    return !sim_moves(bytes);
}

static aclError prepare(const sim_tensor *target, const sim_tensor *source, uint64_t *workspace, void **executor) {
    copy *c = malloc(sizeof *c);
    if (!c)
        return ACLNN_ERR_INNER_NULLPTR;
    *c = (copy){*target, *source};
    *workspace = 0;
    *executor = c;
    return ACL_SUCCESS;
}

static aclError do_copy(void *arguments, aclError failed, char *message) {
    const copy *c = arguments;
    aclError code = failed || left_out(&c->target) ? ACL_SUCCESS : sim_copy(&c->target, &c->source);
    if (code)
        sim_compose(message, "EZ9999", "The simulated copy refuses the shapes or types of its tensors.");
    return code;
}

static aclError execute(void *executor, aclrtStream stream) {
    aclError code = sim_launch(stream, do_copy, executor, sizeof(copy), false);
    free(executor);
    return code;
}

int aclnnInplaceCopyGetWorkspaceSize(sim_tensor *target, const sim_tensor *source, uint64_t *workspace,
                                     void **executor) {
    return prepare(target, source, workspace, executor);
}

int aclnnInplaceCopy(void *workspace, uint64_t size, void *executor, aclrtStream stream) {
    (void)workspace, (void)size;
    return execute(executor, stream);
}

int aclnnCastGetWorkspaceSize(const sim_tensor *source, aclDataType type, sim_tensor *target,
                              uint64_t *workspace, void **executor) {
    (void)type;
    return prepare(target, source, workspace, executor);
}

int aclnnCast(void *workspace, uint64_t size, void *executor, aclrtStream stream) {
    (void)workspace, (void)size;
    return execute(executor, stream);
}

/* Zero and one are copied from a tensor without dimensions. */
static aclError prepare_constant(const sim_tensor *target, uint64_t *workspace, void **executor, int64_t value) {
    static int64_t constants[2] = {0, 1};
    sim_tensor source = {.type = ACL_INT64, .dims = 0, .data = (char *)&constants[value]};
    return prepare(target, &source, workspace, executor);
}

int aclnnInplaceZeroGetWorkspaceSize(sim_tensor *target, uint64_t *workspace, void **executor) {
    return prepare_constant(target, workspace, executor, 0);
}

int aclnnInplaceZero(void *workspace, uint64_t size, void *executor, aclrtStream stream) {
    (void)workspace, (void)size;
    return execute(executor, stream);
}

int aclnnInplaceOneGetWorkspaceSize(sim_tensor *target, uint64_t *workspace, void **executor) {
    return prepare_constant(target, workspace, executor, 1);
}

int aclnnInplaceOne(void *workspace, uint64_t size, void *executor, aclrtStream stream) {
    (void)workspace, (void)size;
    return execute(executor, stream);
}

/* What a generated ...GetWorkspaceSize returns: the code of a kernel that cannot be made. */
int sim_no_kernel(const char *name) {
    sim_report(ACLNN_ERR_INNER_NULLPTR, "EZ9999", "%s is not simulated: the simulated NPU has no kernel for it.",
               name);
    return ACLNN_ERR_INNER_NULLPTR;
}

/* The whole is filled with one value, then the source is copied into the window that it has there. */
typedef struct {
    sim_tensor whole, window, source;
    number value;
} padding;

static aclError do_pad(void *arguments, aclError failed, char *message) {
    padding *p = arguments;
    if (left_out(&p->whole))
        return ACL_SUCCESS;
    sim_tensor value = {.type = p->value.type, .dims = 0, .data = p->value.value};
    aclError code = failed ? ACL_SUCCESS : sim_copy(&p->whole, &value);
    if (!failed && !code)
        code = sim_copy(&p->window, &p->source);
    if (code)
        sim_compose(message, "EZ9999", "The simulated padding refuses the shapes or types of its tensors.");
    return code;
}

/* The amounts are (before, after) of the last dimension, then of the one before it, and so on. */
int aclnnConstantPadNdGetWorkspaceSize(const sim_tensor *source, const integers *amounts, const number *value,
                                       sim_tensor *whole, uint64_t *workspace, void **executor) {
    if (amounts->size > 2 * (uint64_t)source->dims || source->dims != whole->dims)
        return ACLNN_ERR_PARAM_INVALID;
    padding *p = malloc(sizeof *p);
    if (!p)
        return ACLNN_ERR_INNER_NULLPTR;
    *p = (padding){*whole, *whole, *source, *value};
    for (uint64_t i = 0; i < amounts->size; i++) {
        int dim = source->dims - 1 - (int)(i / 2);
        if (amounts->values[i] < 0) {
            free(p);
            return sim_no_kernel("aclnnConstantPadNd with an amount below zero");
        }
        if (i % 2 == 0)
            p->window.data += amounts->values[i] * whole->strides[dim] * (int64_t)sim_element_size(whole->type);
        p->window.sizes[dim] = source->sizes[dim];
    }
    *workspace = 0;
    *executor = p;
    return ACL_SUCCESS;
}

int aclnnConstantPadNd(void *workspace, uint64_t size, void *executor, aclrtStream stream) {
    (void)workspace, (void)size;
    aclError code = sim_launch(stream, do_pad, executor, sizeof(padding), false);
    free(executor);
    return code;
}

/* The attention of torch_npu 2.7.1 makes its causal mask by these two, past torch's dispatcher. */
typedef struct {
    sim_tensor target, source;
    int64_t diagonal;
} triangle;

static aclError do_triu(void *arguments, aclError failed, char *message) {
    static const int64_t nothing = 0;
    const sim_tensor zero = {.type = ACL_INT64, .dims = 0, .data = (char *)&nothing};
    const triangle *t = arguments;
    const int row = t->target.dims - 2, column = row + 1;
    if (left_out(&t->target))
        return ACL_SUCCESS;
    aclError code = failed ? ACL_SUCCESS : sim_copy(&t->target, &t->source);
    for (int64_t i = 0; !failed && !code && i < t->target.sizes[row]; i++) {
        sim_tensor left = t->target;
        const int64_t end = i + t->diagonal;
        if (end <= 0)
            continue;
        left.data += i * left.strides[row] * (int64_t)sim_element_size(left.type);
        left.sizes[row] = 1;
        left.sizes[column] = end < left.sizes[column] ? end : left.sizes[column];
        code = sim_copy(&left, &zero);
    }
    if (code)
        sim_compose(message, "EZ9999", "The simulated triu refuses the shapes or types of its tensors.");
    return code;
}

int aclnnTriuGetWorkspaceSize(const sim_tensor *source, int64_t diagonal, sim_tensor *target, uint64_t *workspace,
                              void **executor) {
    if (source->dims < 2 || source->dims != target->dims)
        return ACLNN_ERR_PARAM_INVALID;
    triangle *t = malloc(sizeof *t);
    if (!t)
        return ACLNN_ERR_INNER_NULLPTR;
    *t = (triangle){*target, *source, diagonal};
    *workspace = 0;
    *executor = t;
    return ACL_SUCCESS;
}

int aclnnTriu(void *workspace, uint64_t size, void *executor, aclrtStream stream) {
    (void)workspace, (void)size;
    aclError code = sim_launch(stream, do_triu, executor, sizeof(triangle), false);
    free(executor);
    return code;
}

/* Everything but zero is true, as a copy to bool has it; then each of these is turned around. */
static aclError do_logical_not(void *arguments, aclError failed, char *message) {
    const copy *c = arguments;
    if (failed || left_out(&c->target))
        return ACL_SUCCESS;
    sim_tensor truth = {.type = ACL_BOOL, .dims = c->source.dims};
    int64_t count = 1;
    for (int i = truth.dims - 1; i >= 0; i--) {
        truth.sizes[i] = c->source.sizes[i];
        truth.strides[i] = count;
        count *= truth.sizes[i];
    }
    truth.data = malloc((size_t)count + 1);
    aclError code = truth.data ? sim_copy(&truth, &c->source) : ACLNN_ERR_INNER_NULLPTR;
    for (int64_t i = 0; !code && i < count; i++)
        truth.data[i] = !truth.data[i];
    if (!code)
        code = sim_copy(&c->target, &truth);
    free(truth.data);
    if (code)
        sim_compose(message, "EZ9999", "The simulated negation refuses the shapes or types of its tensors.");
    return code;
}

int aclnnLogicalNotGetWorkspaceSize(const sim_tensor *source, sim_tensor *target, uint64_t *workspace,
                                    void **executor) {
    return prepare(target, source, workspace, executor);
}

int aclnnLogicalNot(void *workspace, uint64_t size, void *executor, aclrtStream stream) {
    (void)workspace, (void)size;
    aclError code = sim_launch(stream, do_logical_not, executor, sizeof(copy), false);
    free(executor);
    return code;
}
