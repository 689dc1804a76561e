/* CRC-32C (Castagnoli) and SHA-256. */
#include "base/digest.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

/* Nettle puts macros over its own names, which are ours too. */
#undef sha256_init
#undef sha256_update

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t update_hardware(
	uint32_t crc, const unsigned char *data, size_t bytes)
{
	uint64_t wide = crc;
	for (; bytes >= 8; bytes -= 8, data += 8) {
		uint64_t word;
		memcpy(&word, data, 8);
		wide = _mm_crc32_u64(wide, word);
	}
	crc = (uint32_t)wide;
	for (; bytes; bytes--)
		crc = _mm_crc32_u8(crc, *data++);
	return crc;
}

static int has_hardware(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#else
static uint32_t update_hardware(uint32_t crc, const unsigned char *data, size_t bytes)
{
	(void)data, (void)bytes;
	return crc;
}

static int has_hardware(void)
{
	return 0;
}
#endif

enum { POLYNOMIAL = (int)0x82f63b78 };

static uint32_t table[256];

__attribute__((constructor)) static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? (uint32_t)POLYNOMIAL : 0);
		table[i] = crc;
	}
}

uint32_t crc32c_software(uint32_t crc, const void *data, size_t bytes)
{
	const unsigned char *byte = data;
	crc = ~crc;
	for (; bytes; bytes--)
		crc = crc >> 8 ^ table[(crc ^ *byte++) & 255];
	return ~crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
	return has_hardware() ? ~update_hardware(~crc, data, bytes) : crc32c_software(crc, data, bytes);
}

/* The product of two polynomials modulo the CRC's, bit 31 standing for x^0 (the order in which the CRC holds
 * them). */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	for (int i = 31; i >= 0; i--) {
		if (a >> i & 1)
			product ^= b;
		b = b >> 1 ^ (b & 1 ? (uint32_t)POLYNOMIAL : 0);
	}
	return product;
}

/* Appending B multiplies A's value by x^(8 x length of B). */
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t bytes_b)
{
	uint32_t square = 1u << 23; /* x^8 */
	for (; bytes_b; bytes_b >>= 1) {
		if (bytes_b & 1)
			a = multiply(a, square);
		square = multiply(square, square);
	}
	return a ^ b;
}

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(struct sha256), "the opaque state holds nettle's");

void sha256_init(struct sha256 *state)
{
	nettle_sha256_init((struct sha256_ctx *)state);
}

void sha256_update(struct sha256 *state, const void *data, size_t bytes)
{
	nettle_sha256_update((struct sha256_ctx *)state, bytes, data);
}

void sha256_hex(struct sha256 *state, char hex[65])
{
	unsigned char digest[SHA256_DIGEST_SIZE];
	nettle_sha256_digest((struct sha256_ctx *)state, sizeof digest, digest);
	for (size_t i = 0; i < sizeof digest; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}
