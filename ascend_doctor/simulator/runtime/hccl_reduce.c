/* Reductions: always in the order of the ranks, so every rank gets the same bits. */
#include "hccl.h"
#include "numbers.h"

#include <string.h>

size_t sim_hccl_size(HcclDataType type) {
    static const unsigned char sizes[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16, 0, 1, 1, 1, 1};
    return (unsigned)type < sizeof sizes ? sizes[type] : 0;
}

bool sim_reducible(HcclDataType type) {
    return (unsigned)type <= HCCL_DATA_TYPE_BFP16;
}

/* Integers wrap as they do in two's complement; half precision is added in single precision and
 * rounded once. Blocks stay in the cache and let the compiler use vectors. */
enum { BLOCK = 512 };
#define REDUCE(T, WIDE, LOAD, STORE, ADD, MULTIPLY)             \
    for (uint64_t at = 0; at < elements; at += BLOCK) {          \
        WIDE sums[BLOCK];                                        \
        uint64_t n = elements - at < BLOCK ? elements - at : BLOCK; \
        for (uint64_t i = 0; i < n; i++)                         \
            sums[i] = LOAD(((const T *)in[0] + at)[i]);         \
        for (uint32_t rank = 1; rank < count; rank++) {          \
            const T *from = (const T *)in[rank] + at;            \
            switch (op) {                                        \
            case HCCL_REDUCE_SUM: LOOP(WIDE, LOAD, ADD)         \
            case HCCL_REDUCE_PROD: LOOP(WIDE, LOAD, MULTIPLY)   \
            case HCCL_REDUCE_MAX: LOOP(WIDE, LOAD, next > sum ? next : sum) \
            default: LOOP(WIDE, LOAD, next < sum ? next : sum)  \
            }                                                    \
        }                                                        \
        for (uint64_t i = 0; i < n; i++)                         \
            ((T *)out + at)[i] = STORE(sums[i]);                 \
    }                                                            \
    break;
#define LOOP(WIDE, LOAD, EXPRESSION)                            \
    for (uint64_t i = 0; i < n; i++) {                           \
        WIDE next = LOAD(from[i]), sum = sums[i];               \
        sums[i] = (EXPRESSION);                                  \
    }                                                            \
    break;
#define PLAIN(x) (x)
#define INTEGER(T) REDUCE(T, T, PLAIN, PLAIN, (T)((uint64_t)sum + (uint64_t)next), (T)((uint64_t)sum * (uint64_t)next))
#define REAL(T, W, LOAD, STORE) REDUCE(T, W, LOAD, STORE, sum + next, sum * next)

static uint16_t cut_bf16(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (uint16_t)(bits >> 16);
}

void sim_reduce(HcclDataType type, HcclReduceOp op, void *out, const void *const *in, uint32_t count,
                uint64_t elements) {
    switch ((int)type) {
    case HCCL_DATA_TYPE_INT8: INTEGER(int8_t)
    case HCCL_DATA_TYPE_INT16: INTEGER(int16_t)
    case HCCL_DATA_TYPE_INT32: INTEGER(int32_t)
    case HCCL_DATA_TYPE_INT64: INTEGER(int64_t)
    case HCCL_DATA_TYPE_UINT8: INTEGER(uint8_t)
    case HCCL_DATA_TYPE_UINT16: INTEGER(uint16_t)
    case HCCL_DATA_TYPE_UINT32: INTEGER(uint32_t)
    case HCCL_DATA_TYPE_UINT64: INTEGER(uint64_t)
    case HCCL_DATA_TYPE_FP16: REAL(uint16_t, float, from_fp16, to_fp16)
    case HCCL_DATA_TYPE_BFP16:
        if (sim_fault_due("hccl-cuts", -1)) {
            REAL(uint16_t, float, from_bf16, cut_bf16)
        }
        REAL(uint16_t, float, from_bf16, to_bf16)
    case HCCL_DATA_TYPE_FP32: REAL(float, float, PLAIN, PLAIN)
    default: REAL(double, double, PLAIN, PLAIN)
    }
}
