/* Half precision in software: compilers older than GCC 12 have no _Float16 on x86_64. Rounding is to
 * nearest even, as in hardware and in torch. */
#ifndef ASCEND_SIMULATOR_NUMBERS_H
#define ASCEND_SIMULATOR_NUMBERS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float from_bf16(uint16_t value) {
    return float_of((uint32_t)value << 16);
}

static inline uint16_t to_bf16(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return 0x7fc0; /* NaN */
    return (uint16_t)((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

static inline float from_fp16(uint16_t value) {
    uint32_t sign = (uint32_t)(value & 0x8000U) << 16, rest = value & 0x7fffU;
    if (rest >= 0x7c00U) /* infinity, NaN */
        return float_of(sign | 0x7f800000U | (rest & 0x3ffU) << 13);
    /* Shifted into place, the exponent is 112 too small; the product also normalises subnormals. */
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

static inline uint16_t to_fp16(float value) {
    uint32_t bits = bits_of(value), rest = bits & 0x7fffffffU;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000U);
    if (rest > 0x7f800000U)
        return sign | 0x7e00;
    if (rest >= 0x477ff000U) /* rounds to 65536 or more */
        return sign | 0x7c00;
    if (rest < 0x38800000U) { /* subnormal: adding 0.5 leaves the rounded bits at the end */
        uint32_t shifted = bits_of(float_of(rest) + 0.5f);
        return (uint16_t)(sign | (shifted - 0x3f000000U));
    }
    return (uint16_t)(sign | ((rest - 0x38000000U + 0xfffU + (rest >> 13 & 1U)) >> 13));
}

#endif
