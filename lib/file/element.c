/* Elements of files as float32. One plain loop a kind, so that the compiler can vectorise them. */
#include "file/element.h"

#include <stdint.h>
#include <string.h>

static float float_of_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* IEEE binary16, exact: subnormals, infinities and NaN payloads included. */
static float float_of_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
	if (exponent == 31)
		return float_of_bits(sign | 0x7f800000u | fraction << 13);
	if (exponent)
		return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
	float magnitude = (float)fraction * 0x1p-24f;
	return sign ? -magnitude : magnitude;
}

static float float_of_bfloat(uint16_t value)
{
	return float_of_bits((uint32_t)value << 16);
}

static uint16_t swap16(uint16_t value)
{
	return __builtin_bswap16(value);
}

static uint32_t swap32(uint32_t value)
{
	return __builtin_bswap32(value);
}

static uint64_t swap64(uint64_t value)
{
	return __builtin_bswap64(value);
}

/* A loop over elements whose bits are loaded as `bits_type`, put in host order, seen as `type` and given to `convert`. */
#define DEFINE_LOOP(name, bits_type, swap, type, convert)                                                    \
	static void name(const unsigned char *in, size_t count, bool big_endian, float *out)                 \
	{                                                                                                    \
		for (size_t i = 0; i < count; i++) {                                                         \
			bits_type bits;                                                                      \
			memcpy(&bits, in + i * sizeof bits, sizeof bits);                                    \
			bits = big_endian ? swap(bits) : bits;                                               \
			type value;                                                                          \
			memcpy(&value, &bits, sizeof value);                                                 \
			out[i] = convert(value);                                                             \
		}                                                                                            \
	}

DEFINE_LOOP(loop_u1, uint8_t, , uint8_t, (float))
DEFINE_LOOP(loop_i1, uint8_t, , int8_t, (float))
DEFINE_LOOP(loop_b1, uint8_t, , uint8_t, 0 !=)
DEFINE_LOOP(loop_u2, uint16_t, swap16, uint16_t, (float))
DEFINE_LOOP(loop_i2, uint16_t, swap16, int16_t, (float))
DEFINE_LOOP(loop_f2, uint16_t, swap16, uint16_t, float_of_half)
DEFINE_LOOP(loop_bf, uint16_t, swap16, uint16_t, float_of_bfloat)
DEFINE_LOOP(loop_u4, uint32_t, swap32, uint32_t, (float))
DEFINE_LOOP(loop_i4, uint32_t, swap32, int32_t, (float))
DEFINE_LOOP(loop_f4, uint32_t, swap32, float, )
DEFINE_LOOP(loop_u8, uint64_t, swap64, uint64_t, (float))
DEFINE_LOOP(loop_i8, uint64_t, swap64, int64_t, (float))
DEFINE_LOOP(loop_f8, uint64_t, swap64, double, (float))

static const struct element_row {
	char kind;
	int size;
	void (*loop)(const unsigned char *in, size_t count, bool big_endian, float *out);
} rows[] = {
	{'b', 1, loop_b1},
	{'u', 1, loop_u1},
	{'i', 1, loop_i1},
	{'u', 2, loop_u2},
	{'i', 2, loop_i2},
	{'u', 4, loop_u4},
	{'i', 4, loop_i4},
	{'u', 8, loop_u8},
	{'i', 8, loop_i8},
	{'f', 2, loop_f2},
	{'f', 4, loop_f4},
	{'f', 8, loop_f8},
	{'B', 2, loop_bf},
};

static const struct element_row *find_row(char kind, int size)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].kind == kind && rows[i].size == size)
			return &rows[i];
	return NULL;
}

bool element_is_known(char kind, int size)
{
	return find_row(kind, size) != NULL;
}

void element_to_float(char kind, int size, bool big_endian, const void *in, size_t count, float *out)
{
	find_row(kind, size)->loop(in, count, big_endian, out);
}
