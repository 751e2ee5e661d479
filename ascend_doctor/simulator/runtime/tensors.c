/* Copies between strided tensors, with conversion of the element type. */
#include "tensors.h"

#include "numbers.h"
#include "simulator.h"

#include <string.h>

typedef struct {
    bool integral;
    int64_t whole;
    double real, imaginary;
} element;

size_t sim_element_size(aclDataType type) {
    switch ((int)type) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL: return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16: return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32: return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64: return 8;
    case ACL_COMPLEX128: return 16;
    default: return 0;
    }
}

static element whole(int64_t value) {
    return (element){true, value, (double)value, 0};
}

static element real(double value) {
    return (element){false, 0, value, 0};
}

/* A tensor may begin anywhere in its storage, so its elements may be unaligned. */
#define READ_AT(T, index) ({ T read; memcpy(&read, at + (index) * sizeof read, sizeof read); read; })
#define READ(T) READ_AT(T, 0)
static element load(const char *at, aclDataType type) {
    switch ((int)type) {
    case ACL_INT8: return whole(READ(int8_t));
    case ACL_UINT8:
    case ACL_BOOL: return whole(READ(uint8_t));
    case ACL_INT16: return whole(READ(int16_t));
    case ACL_UINT16: return whole(READ(uint16_t));
    case ACL_INT32: return whole(READ(int32_t));
    case ACL_UINT32: return whole(READ(uint32_t));
    case ACL_INT64:
    case ACL_UINT64: return whole(READ(int64_t));
    case ACL_FLOAT16: return real(from_fp16(READ(uint16_t)));
    case ACL_BF16: return real(from_bf16(READ(uint16_t)));
    case ACL_FLOAT: return real(READ(float));
    case ACL_COMPLEX64: return (element){false, 0, READ(float), READ_AT(float, 1)};
    case ACL_COMPLEX128: return (element){false, 0, READ(double), READ_AT(double, 1)};
    default: return real(READ(double));
    }
}

#define WRITE_AT(T, index, value) \
    ({ T written = (T)(value); memcpy(at + (index) * sizeof written, &written, sizeof written); })
#define WRITE(T, value) WRITE_AT(T, 0, value)
static void store(char *at, aclDataType type, element e) {
    /* NaN and what does not fit have no defined integer; 0 keeps the sanitizer's rules */
    bool fits = e.integral || (e.real > -9.2e18 && e.real < 9.2e18);
    int64_t integer = e.integral ? e.whole : fits ? (int64_t)e.real : 0;
    switch ((int)type) {
    case ACL_INT8: WRITE(int8_t, integer); break;
    case ACL_UINT8: WRITE(uint8_t, integer); break;
    case ACL_BOOL: WRITE(uint8_t, e.integral ? e.whole != 0 : e.real != 0 || e.imaginary != 0); break;
    case ACL_INT16: WRITE(int16_t, integer); break;
    case ACL_UINT16: WRITE(uint16_t, integer); break;
    case ACL_INT32: WRITE(int32_t, integer); break;
    case ACL_UINT32: WRITE(uint32_t, integer); break;
    case ACL_INT64:
    case ACL_UINT64: WRITE(int64_t, integer); break;
    case ACL_FLOAT16: WRITE(uint16_t, to_fp16((float)e.real)); break;
    case ACL_BF16: WRITE(uint16_t, to_bf16((float)e.real)); break;
    case ACL_FLOAT: WRITE(float, e.real); break;
    case ACL_COMPLEX64: WRITE(float, e.real), WRITE_AT(float, 1, e.imaginary); break;
    case ACL_COMPLEX128: WRITE(double, e.real), WRITE_AT(double, 1, e.imaginary); break;
    default: WRITE(double, e.real); break;
    }
}

static int64_t count(const sim_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->dims; i++)
        n *= t->sizes[i];
    return n;
}

static bool dense(const sim_tensor *t) {
    int64_t step = 1;
    for (int i = t->dims - 1; i >= 0; i--) {
        if (t->sizes[i] != 1 && t->strides[i] != step)
            return false;
        step *= t->sizes[i];
    }
    return true;
}

static bool same_shape(const sim_tensor *a, const sim_tensor *b) {
    return a->dims == b->dims && !memcmp(a->sizes, b->sizes, sizeof a->sizes[0] * (size_t)a->dims);
}

/* The source as seen with the target's shape: stretched dimensions have stride 0. */
static bool stretch(const sim_tensor *target, const sim_tensor *source, int64_t *strides) {
    int missing = target->dims - source->dims;
    if (missing < 0)
        return false;
    for (int i = 0; i < target->dims; i++) {
        bool given = i >= missing;
        int64_t size = given ? source->sizes[i - missing] : 1;
        if (size != 1 && size != target->sizes[i])
            return false;
        strides[i] = size == 1 ? 0 : source->strides[i - missing];
    }
    return true;
}

aclError sim_copy(const sim_tensor *target, const sim_tensor *source) {
    size_t to = sim_element_size(target->type), from = sim_element_size(source->type);
    int64_t total = count(target), strides[SIM_MAX_DIMS];
    if (!to || !from || !stretch(target, source, strides))
        return ACL_ERROR_RT_PARAM_INVALID;
    bool same_type = target->type == source->type;
    if (same_type && same_shape(target, source) && dense(target) && dense(source)) {
        memmove(target->data, source->data, (size_t)total * to);
        return ACL_SUCCESS;
    }
    int64_t index[SIM_MAX_DIMS] = {0}, write = 0, read = 0;
    for (int64_t done = 0; done < total; done++) {
        char *out = target->data + write * (int64_t)to;
        const char *in = source->data + read * (int64_t)from;
        if (same_type)
            memmove(out, in, to);
        else
            store(out, target->type, load(in, source->type));
        for (int d = target->dims - 1; d >= 0; d--) {
            write += target->strides[d], read += strides[d];
            if (++index[d] < target->sizes[d])
                break;
            write -= target->strides[d] * index[d], read -= strides[d] * index[d];
            index[d] = 0;
        }
    }
    return ACL_SUCCESS;
}
